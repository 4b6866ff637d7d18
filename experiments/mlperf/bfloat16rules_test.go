package mlperf

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/nn/program"
)

// Each rule as it is documented (package program, bfloat16), found in a step.
func TestBFloat16Rules(t *testing.T) {
	x := loaded(t, "bfloat16-rules", bfloat16Rules)
	all := cellstest.Measured(t, x)
	want := map[string]string{
		"convolution-inputs": "16 [16] yes", "convolution-weights": "16 [16] yes", "convolution-sums": "not stated [32] -", "convolution-outputs": "not stated [16] -",
		"batch-norm-statistics": "32 [32] yes", "batch-norm-images": "32 [16] no", "other-images": "32 [16] no", "loss": "32 [32] yes", "logits": "32 [16] no",
		"weight-gradients": "32 [32] yes", "summation": "32 [32] yes", "weights": "32 [32] yes", "optimizer": "32 [32] yes",
	}
	r := cellstest.Report(t, x, func(_, sample string) foundBits { return all[sample] })
	table := r.Tables[0]
	if len(table.Rows) != len(want) || len(all) != len(want) {
		t.Errorf("%d rows of %d samples, want %d", len(table.Rows), len(all), len(want))
	}
	for _, row := range table.Rows {
		got := fmt.Sprintf("%s %v %s", row[table.Column("paper, bits")], row[table.Column("ours, bits")].Numbers, row[table.Column("same")])
		testkit.Equal(t, got, want[row[0].Text], "%s", row[0].Text)
	}
}

// A step compiled with float32 activations has 32 bits where that with bfloat16 has 16: what
// is found is the program's.
func TestBFloat16OtherStorage(t *testing.T) {
	m := operand{op: "conv2d", Move: program.Move{ElemBytes: 4, Activation: true}}
	s := &ranStep{moves: []operand{m, {op: "conv2d", Move: program.Move{ElemBytes: 2, Activation: true}}, {op: "matmul", Move: program.Move{ElemBytes: 8}}}}
	if got := finders["convolution-inputs"](s); fmt.Sprint(got.Bits) != "[16 32]" || got.Of != 2 {
		t.Errorf("of two convolutions: %+v", got)
	}
	if got := eachBits(2*100+64, 100); got.Bits[0] == 32 {
		t.Errorf("half of the bytes: %+v", got)
	}
	if got := probed(probe{weights: []float32{1}, inputs: []float32{3}, comes: map[float32]int{0: 16}}); got.Bits != nil {
		t.Errorf("a probe that comes to something else: %+v", got)
	}
}
