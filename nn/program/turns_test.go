package program

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Shares of an accumulator cover each of its numbers once, whatever their number, and are
// the same for parts with other numbers of rows, which hand them to each other.
func TestShares(t *testing.T) {
	node := func(shape ...int) *graph.Node { return &graph.Node{Shape: shape, DType: graph.F32} }
	gradient := func(op any, w graph.Shape, rows, in, out int) *graph.Call {
		return &graph.Call{Op: op, In: []*graph.Node{node(1, rows, 9, in), node(1, rows, 9, out)}, Out: []*graph.Node{node(w...)}}
	}
	kinds := map[string]func(rows, in, out int) *graph.Call{
		"1x1": func(rows, in, out int) *graph.Call {
			return gradient(op.ConvWeightGrad{Window: op.Square(1, 1)}, graph.Shape{1, 1, in, out}, rows, in, out)
		},
		"3x3": func(rows, in, out int) *graph.Call {
			return gradient(op.ConvWeightGrad{Window: op.Square(3, 1)}, graph.Shape{3, 3, in, out}, rows, in, out)
		},
		"depthwise": func(rows, in, _ int) *graph.Call {
			return gradient(op.DepthwiseWeightGrad{Of: op.Depthwise{Window: op.Square(3, 1), Dilation: 1}}, graph.Shape{3, 3, in}, rows, in, in)
		},
		"sum": func(rows, in, _ int) *graph.Call { return gradient(op.ColumnSum{}, graph.Shape{in}, rows, in, in) },
	}
	for name, of := range kinds {
		for _, channels := range [][2]int{{1, 1}, {3, 64}, {16, 24}, {128, 33}, {100, 512}} {
			for _, shares := range []int{1, 2, 3, 4, 8, 10} {
				s := of(7, channels[0], channels[1])
				seen := make([]float32, s.Out[0].Elems())
				ones := make([]float32, len(seen))
				for i := range ones {
					ones[i] = 1
				}
				var floats int
				for share := range shares {
					a := traitsOf(s).area(share, shares)
					testkit.Equal(t, traitsOf(of(2, channels[0], channels[1])).area(share, shares), a, "%s %v, share %d of %d", name, channels, share, shares)
					a.copy(seen, ones)
					floats += a.floats()
				}
				if floats != len(seen) || !slices.Equal(seen, ones) {
					t.Errorf("%s %v: %d shares have %d of %d numbers", name, channels, shares, floats, len(seen))
				}
			}
		}
	}
}
