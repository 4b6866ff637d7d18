package program

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// What instructions move, with bfloat16 activations: of a table only the rows
// that are looked up; for an accumulator its contents and the addend, in
// float32; activations in two bytes, the norm's statistics in four.
func TestMoves(t *testing.T) {
	g := &graph.Graph{}
	table := g.NewNode(graph.Param, "table", graph.F32, 100, 16)
	ids := g.NewNode(graph.Input, "ids", graph.I32, 2, 3)
	places := g.NewNode(graph.Const, "places", graph.F32, 50, 16)
	gamma := g.NewNode(graph.Param, "gamma", graph.F32, 16)
	beta := g.NewNode(graph.Param, "beta", graph.F32, 16)
	w := g.NewNode(graph.Param, "w", graph.F32, 16, 5)
	x := g.Embed(table, ids, places, 1)
	y := g.MatMul(g.LayerNorm(x, gamma, beta, 1e-5), w)
	f := Function{Graph: g, In: []*graph.Node{ids}, Out: []*graph.Node{y}, Params: []*graph.Node{table, places, gamma, beta, w}}
	s := Compile(f, []bool{true}, false, 1, Storage{DType: graph.BF16, NoPacking: true})
	var b strings.Builder
	for _, p := range []*Program{s.Keep, s.Backward} {
		for i := range p.Instrs {
			in := &p.Instrs[i]
			b.WriteString(in.Op)
			for m := range in.Moves() {
				sign := "-"
				if m.Written {
					sign = "+"
				}
				fmt.Fprintf(&b, " %s%dx%d", sign, m.Elems, m.ElemBytes)
			}
			b.WriteByte('\n')
		}
	}
	want := `embed -96x4 -6x4 -96x4 +96x2
layer-norm -96x2 -16x4 -16x4 +96x2 +12x4
matmul -96x2 -80x4 +30x2
matmul-bt -30x2 -80x4 +96x2
matmul-at -96x2 -30x2 -80x4 +80x4
layer-norm-param-grad -96x2 -96x2 -12x4 -16x4 +16x4 -16x4 +16x4
layer-norm-grad -96x2 -96x2 -16x4 -12x4 +96x2
embed-grad -96x2 -6x4 -96x4 +96x4
`
	testkit.Equal(t, cmp.Diff(want, b.String()), "", "(-want +got)\n")
}

// Products padded to 8 lanes: for a matrix unit both widths of the weight, for
// vectors the output's width. Shapes distinguish operations by their operands
// and their windows.
func TestPaddedProducts(t *testing.T) {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, 1, 4, 4, 3)
	w := g.NewNode(graph.Param, "w", graph.F32, 3, 3, 3, 5)
	v := g.NewNode(graph.Param, "v", graph.F32, 1, 1, 5, 9)
	h := g.Conv2D(x, w, op.Square(3, 1).Same(4, 4))
	u := g.NewNode(graph.Param, "u", graph.F32, 3, 1, 9)
	y := g.Depthwise(g.Conv2D(h, v, op.Square(1, 2)), u, op.Window{SH: 1, SW: 1, Top: 2, Bottom: 2}, 2)
	f := Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}, Params: []*graph.Node{w, v, u}}
	s := Compile(f, []bool{true}, false, 1, Storage{DType: graph.F32})
	var b strings.Builder
	for _, p := range []*Program{s.Keep, s.Backward} {
		for i := range p.Instrs {
			in := &p.Instrs[i]
			if in.FLOPs == 0 {
				continue
			}
			kind, least := in.Product()
			fmt.Fprintf(&b, "%s: %d, %d, %d; %s of %d\n", in.Shape(), in.FLOPs, in.PaddedFLOPs(8), in.VectorFLOPs(8), kind, least)
			if in.PaddedFLOPs(1) != in.FLOPs || in.VectorFLOPs(1) != in.FLOPs {
				t.Errorf("%s: padded to one lane", in.Op)
			}
		}
	}
	want := `conv2d (3x3 stride 1x1 padding 1,1,1,1) 1x4x4x3 3x3x3x5 -> 1x4x4x5: 4320, 18432, 6912; conv-3x3 of 5
conv2d (1x1 stride 2x2 padding 0,0,0,0) 1x4x4x5 1x1x5x9 -> 1x2x2x9: 360, 1024, 640; conv-1x1 of 4
depthwise (3x1 stride 1x1 padding 2,2,0,0 dilation 2) 1x2x2x9 3x1x9 -> 1x2x2x9: 216, 384, 384; depthwise of 9
depthwise-input-grad (3x1 stride 1x1 padding 2,2,0,0 dilation 2) 1x2x2x9 3x1x9 -> 1x2x2x9: 216, 384, 384; depthwise-input-grad of 9
depthwise-weight-grad (3x1 stride 1x1 padding 2,2,0,0 dilation 2) 1x2x2x9 1x2x2x9 -> 3x1x9: 216, 384, 384; depthwise-weight-grad of 9
conv2d-input-grad (1x1 stride 2x2 padding 0,0,0,0) 1x2x2x9 1x1x5x9 -> 1x4x4x5: 360, 1024, 576; conv-1x1-input-grad of 4
conv2d-weight-grad (1x1 stride 2x2 padding 0,0,0,0) 1x4x4x5 1x2x2x9 -> 1x1x5x9: 360, 1024, 640; conv-1x1-weight-grad of 4
conv2d-weight-grad (3x3 stride 1x1 padding 1,1,1,1) 1x4x4x3 1x4x4x5 -> 3x3x3x5: 4320, 18432, 6912; conv-3x3-weight-grad of 5
`
	testkit.Equal(t, cmp.Diff(want, b.String()), "", "(-want +got)\n")
}

// A scan reads its weights in every step, and one that projects its input inside reads and
// writes their accumulators in every step. Its product has a row for each example.
func TestScansReadWeightsInEveryStep(t *testing.T) {
	const batch, steps, width, hidden = 2, 7, 3, 5
	for _, inside := range []bool{false, true} {
		g := &graph.Graph{}
		x := g.NewNode(graph.Input, "x", graph.F32, batch, steps, width)
		wx := g.NewNode(graph.Param, "wx", graph.F32, width, 4*hidden)
		bias := g.NewNode(graph.Param, "bias", graph.F32, 4*hidden)
		w := g.NewNode(graph.Param, "w", graph.F32, hidden, 4*hidden)
		var y *graph.Node
		if inside {
			y = g.LSTMInside(x, wx, bias, w, nil, false)
		} else {
			y = g.LSTM(g.AddBias(g.MatMul(x, wx), bias), w, nil, false)
		}
		f := Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}, Params: []*graph.Node{wx, bias, w}}
		s := Compile(f, []bool{true}, true, 1, Storage{})
		var b strings.Builder
		for _, p := range []*Program{s.Keep, s.Backward} {
			for i := range p.Instrs {
				in := &p.Instrs[i]
				kind, least := in.Product()
				fmt.Fprintf(&b, "%s: %d, %d; %s of %d;", in.Op, in.FLOPs, in.PaddedFLOPs(8), kind, least)
				for m := range in.Moves() {
					if m.Space == Params || m.Space == Grads {
						fmt.Fprint(&b, " ", m.Elems)
					}
				}
				b.WriteByte('\n')
			}
		}
		want := `matmul+bias: 1680, 5376; dense of 3; 60 20
lstm: 2800, 5376; dense of 2; 700
copy: 0, 0;  of 0;
lstm-grad: 2800, 5376; dense of 2; 700
previous: 0, 0;  of 0;
matmul-at: 2800, 5376; dense of 5; 100 100
column-sum: 0, 0;  of 0; 20 20
matmul-bt: 1680, 5376; dense of 3; 60
matmul-at: 1680, 5376; dense of 3; 60 60
`
		if inside {
			want = `lstm-inside: 4480, 5376; dense of 2; 420 140 700
copy: 0, 0;  of 0;
lstm-inside-grad: 4480, 5376; dense of 2; 420 700
lstm-inside-weight-grad: 4480, 5376; dense of 2; 420 420 140 140 700 700
`
		}
		testkit.Equal(t, cmp.Diff(want, b.String()), "", "inside %v (-want +got)\n", inside)
	}
}

// A reshape of a value that is not needed afterwards moves nothing; of one that
// is, all of it.
func TestReshapeInPlaceIsFree(t *testing.T) {
	for _, again := range []bool{false, true} {
		g := &graph.Graph{}
		x := g.NewNode(graph.Input, "x", graph.F32, 2, 3, 4)
		h := g.Exp(x)
		y := g.Tanh(g.Flatten(h))
		out := []*graph.Node{y}
		if again {
			out = append(out, g.Exp(h))
		}
		s := CompileEvaluate(Function{Graph: g, In: []*graph.Node{x}, Out: out}, 1, Storage{})
		in := &s.Forward.Instrs[1]
		moves := len(slices.Collect(in.Moves()))
		if in.Op != "reshape" || (moves > 0) != again {
			t.Errorf("needed again %v: %s in %d moves", again, in.Op, moves)
		}
	}
}

// The description of an instruction holds nothing that differs between runs of the
// program, such as the address of a caller's function.
func TestShapeOfOwnOps(t *testing.T) {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, 2, 3)
	f := func(x float64) float64 { return x }
	y := g.Map(graph.Elementwise{Name: "own", F: f, Derivative: f, FLOPs: 5}, x)
	y = g.Compute(graph.Function{
		Name:  "general",
		Types: func(in []graph.Type) ([]graph.Type, error) { return in, nil },
		Run:   func(out, in []graph.Tensor) {},
		FLOPs: func(in, out []graph.Type) int64 { return 7 },
	}, y)[0]
	s := Compile(Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}}, []bool{true}, true, 1, Storage{})
	for i, want := range []string{"own 2x3 -> 2x3", "general 2x3 -> 2x3"} {
		in := &s.Forward.Instrs[i]
		if in.Shape() != want || in.FLOPs != []int64{5 * 6, 7}[i] {
			t.Errorf("%s with %d FLOPs, want %s", in.Shape(), in.FLOPs, want)
		}
	}
	h := &graph.Graph{}
	x = h.NewNode(graph.Input, "x", graph.F32, 2, 3)
	y = h.Map(graph.Elementwise{Name: "own", F: f, Derivative: f}, x)
	s = Compile(Function{Graph: h, In: []*graph.Node{x}, Out: []*graph.Node{y}}, []bool{true}, true, 1, Storage{})
	testkit.Equal(t, s.Backward.Instrs[0].Shape(), "own-grad 2x3 2x3 -> 2x3", "the gradient")
}
