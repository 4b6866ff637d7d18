package rules

import (
	"fmt"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/nn/program"
)

// Each rule as it is documented (docs/design.md, bfloat16), found in a step.
func TestRules(t *testing.T) {
	x := labtest.Loaded[*rules](t, Definition.Load)
	log := records.New(x.Key("quick"))
	labtest.CheckLacking(t, x, log)
	labtest.MeasureTwice(t, x, log)
	want := map[string]string{
		"convolution-inputs": "16 [16] yes", "convolution-weights": "16 [16] yes", "convolution-sums": "not stated [32] -", "convolution-outputs": "not stated [16] -",
		"batch-norm-statistics": "32 [32] yes", "batch-norm-images": "32 [16] no", "other-images": "32 [16] no", "loss": "32 [32] yes", "logits": "32 [16] no",
		"weight-gradients": "32 [32] yes", "summation": "32 [32] yes", "weights": "32 [32] yes", "optimizer": "32 [32] yes",
	}
	r, err := x.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := r.Tables[0]
	if len(table.Rows) != len(want) || len(log.Names) != len(want) {
		t.Errorf("%d rows of %d samples, want %d", len(table.Rows), len(log.Names), len(want))
	}
	for _, row := range table.Rows {
		got := fmt.Sprintf("%s %v %s", row[table.Column("paper, bits")], row[table.Column("ours, bits")].Numbers, row[table.Column("same")])
		if got != want[row[0].Text] {
			t.Errorf("%s: %s, want %s", row[0].Text, got, want[row[0].Text])
		}
	}
}

// A step compiled with float32 activations has 32 bits where that with bfloat16 has 16: what
// is found is the program's.
func TestOtherStorage(t *testing.T) {
	m := move{op: "conv2d", Move: program.Move{ElemBytes: 4, Activation: true}}
	s := &step{moves: []move{m, {op: "conv2d", Move: program.Move{ElemBytes: 2, Activation: true}}, {op: "matmul", Move: program.Move{ElemBytes: 8}}}}
	if got := finders["convolution-inputs"](s); fmt.Sprint(got.Bits) != "[16 32]" || got.Of != 2 {
		t.Errorf("of two convolutions: %+v", got)
	}
	if got := each(2*100+64, 100); got.Bits[0] == 32 {
		t.Errorf("half of the bytes: %+v", got)
	}
	if got := probed(probe{weights: []float32{1}, inputs: []float32{3}, comes: map[float32]int{0: 16}}); got.Bits != nil {
		t.Errorf("a probe that comes to something else: %+v", got)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"id: logits", "id: nothing", "unknown rule \"nothing\""},
		{"  - {id: logits, what: logits that the loss reads, paper: 32}\n", "", "no rule \"logits\""},
		{"batch: 16", "batch: 1", "want a whole number from 2"},
	})
}
