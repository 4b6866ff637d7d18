package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
)

func TestReduce(t *testing.T) {
	x := []float32{3, -4, 0, 12}
	if got := nn.SumSquares(x); got != 169 {
		t.Errorf("SumSquares is %v, want 169", got)
	}
	nn.AddInto(x, []float32{1, 1, 1, 1})
	exactly(t, "AddInto", x, 4, -3, 1, 13)
	if got := nn.FirstNonFinite(x); got != -1 {
		t.Errorf("FirstNonFinite is %d, want -1", got)
	}
	x[2] = float32(math.Inf(-1))
	if got := nn.FirstNonFinite(x); got != 2 {
		t.Errorf("FirstNonFinite is %d, want 2", got)
	}
	nn.Zero(x)
	exactly(t, "Zero", x, 0, 0, 0, 0)
	switch p := nn.KernelProfile(); p {
	case "avx512", "avx2", "generic":
	default:
		t.Errorf("unknown profile %q", p)
	}
}
