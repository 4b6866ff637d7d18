package accelerator

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// A product takes its waves of tiles: one row more than fills the processors takes one wave more,
// and the best of the tiles is taken.
func TestProductTakesWholeWaves(t *testing.T) {
	k := Kernels{Processors: 4, Tiles: [][2]int{{128, 128}}, Cache: math.Inf(1), Start: 1e-6}
	const rate = 4e12 // 1e12 of each processor
	wave := 2*128*128*4096/1e12 + 1e-6
	for _, test := range []struct {
		m, n  int
		waves float64
	}{{256, 256, 1}, {257, 256, 2}, {512, 512, 4}, {256, 1, 1}} {
		got := k.product(program.Dims{Count: 1, M: test.m, N: test.n, K: 4096}, rate, 2)
		if test.m*test.n < 4*128*128 { // its terms are cut over the processors that are left
			if got >= wave {
				t.Errorf("%d x %d: %v, want less than a wave of whole tiles, %v", test.m, test.n, got, wave)
			}
		} else if want := test.waves * wave; math.Abs(got/want-1) > 1e-12 {
			t.Errorf("%d x %d: %v, want %v waves of %v", test.m, test.n, got, test.waves, wave)
		}
	}
	slow := k
	slow.Cache = 4e9
	if got, want := slow.product(program.Dims{Count: 1, M: 256, N: 256, K: 4096}, rate, 2), 256*2*4096/1e9+1e-6; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("%v, want %v: as fast as the cache gives operands", got, want)
	}
	small := k
	small.Tiles = append(small.Tiles, [2]int{64, 64})
	d := program.Dims{Count: 1, M: 320, N: 256, K: 4096}
	if one, best := k.product(d, rate, 2), small.product(d, rate, 2); best >= one {
		t.Errorf("with smaller tiles %v, without %v: want less", best, one)
	}
}

// Products with a width that is no multiple of the lanes run without the matrix units.
func TestUnalignedProductsAreSlow(t *testing.T) {
	a := *testkit.Must(Named("a100-80g"))(t)
	seconds := func(width int) float64 {
		g := &graph.Graph{}
		x, w := g.NewNode(graph.Input, "x", graph.F32, 4096, 4096), g.NewNode(graph.Param, "w", graph.F32, 4096, width)
		f := program.Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{g.MatMul(x, w)}, Params: []*graph.Node{w}}
		return a.Seconds(program.CompileEvaluate(f, 1, program.Storage{DType: graph.BF16, NoPacking: true}).Forward, graph.BF16)
	}
	ratio := seconds(4095) / seconds(4096)
	if want := a.BF16 / a.Kernels.Unaligned; ratio < 0.9*want || ratio > 1.1*want {
		t.Errorf("takes %v times as long, want about %v", ratio, want)
	}
}
