package program_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/amoebanet"
	"gpipebench/models/resnet"
	"gpipebench/models/ssd"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// trained runs two micro-batches of the same size forward and backward, the first of them
// with its residuals recomputed, and returns all outputs.
func trained(r *programtest.Runner, highest []int32) programtest.Results {
	got := programtest.Results{}
	size := r.Stage.In[0].Shape[0]
	for m := range 2 {
		fillBatch(r, m, highest)
		for i := range r.Stage.DOut {
			d := r.DOut(i)
			for j := range d {
				d[j] = float32((j+3*m)%13) - 6
			}
		}
		r.Env.Example, r.Env.LossScale, r.Env.Again = uint64(m*size), 1.0/float32(2*size), false
		if m == 0 {
			r.Forward()
			got.Outputs(r, 100)
			r.Env.Again = true
		}
		r.Keep()
		got.Outputs(r, m*size)
		r.Env.Again = true
		r.Backward()
		got.Gradients(r, m*size)
	}
	return got
}

// planned fails unless everything that the plan of a divided runner's programs has was used,
// to the float, of every part.
func planned(t *testing.T, name string, r *programtest.Runner) {
	t.Helper()
	check := func(part int, st *program.Stage, high [program.Spaces]int) {
		for _, s := range []program.Space{program.Residual, program.Workspace} {
			testkit.Equal(t, st.Span[s], high[s], "%s: part %d used %d floats of %v, planned", name, part, high[s], s)
		}
	}
	check(0, r.Stage, r.High)
	for i, p := range r.Parts {
		check(i+1, r.Stage.Parts[i], p.High)
	}
}

// fillBatch fills the inputs and targets of micro-batch m with numbers: integers are from
// 1 to the highest of each.
func fillBatch(r *programtest.Runner, m int, highest []int32) {
	for i, at := range slices.Concat(r.Stage.In, r.Stage.Feeds) {
		stream := philox.NewStream(philox.KeyOf(5, fmt.Sprint(i)), uint64(m))
		x := make([]float32, at.Shape.Elems())
		for j := range x {
			if highest[i] == 0 {
				x[j] = float32(normal(stream))
			} else {
				programtest.Ints(x)[j] = 1 + int32(stream.Intn(int(highest[i])))
			}
		}
		at.Fill(r.Space(program.In), x)
	}
}

// imageNetworks are whole networks that parts divide, of two examples.
func imageNetworks(t *testing.T) map[string]programtest.Network {
	made := func(layers []nn.Layer, err error) []nn.Layer {
		testkit.NoError(t, err)
		return layers
	}
	of := func(layers []nn.Layer, loss nn.Loss, size int) programtest.Network {
		return programtest.Network{Layers: layers, Loss: loss, In: []graph.Type{programtest.Floats(2, size, size, 3)}, Targets: []graph.Type{programtest.Integers(2)}}
	}
	return map[string]programtest.Network{
		"resnet": of(made(resnet.New(resnet.Config{Blocks: [4]int{1, 2, 1, 1}, Width: 4, Classes: 5, Image: 45})), nn.CrossEntropy{}, 45),
		"amoebanet": of(made(amoebanet.New(amoebanet.Config{Layers: 3, Filters: 8, Classes: 5, Image: 41, DropPath: 0.3, Dropout: 0.5, Aux: true})),
			nn.AuxiliaryLoss{}, 41),
		"amoebanet-b": of(made(amoebanet.New(amoebanet.Config{Cells: amoebanet.B, Layers: 3, Filters: 16, Classes: 5, Image: 41})), nn.CrossEntropy{}, 41),
		"ssd":         of(made(ssd.New(ssd.Config{Width: 4, Classes: 5, Image: 70})), ssd.Loss{}, 70),
	}
}

// TestDividedNetworks: whole networks in 2, 3 and 4 parts, each with memory of its own, have
// the bits of the undivided network: outputs, gradients of inputs, accumulators of weights
// and tallies of batch norm. All of the plan is used, and nothing beside it.
func TestDividedNetworks(t *testing.T) {
	for name, n := range imageNetworks(t) {
		whole := programtest.CompileLayers(t, n)
		want := trained(whole, []int32{0, 4})
		for parts := 2; parts <= 4; parts++ {
			if testing.Short() && parts != 3 {
				continue
			}
			n.Threads = 1 + parts%2
			r := programtest.CompileLayers(t, n).Divide(parts)
			what := fmt.Sprintf("%s in %d parts of %d threads", name, parts, n.Threads)
			want.Same(t, trained(r, []int32{0, 4}), what)
			planned(t, what, r)
		}
	}
}

// randomStack draws a stack of layers for images, and the types of its input.
func randomStack(r *rand.Rand) ([]nn.Layer, graph.Type) {
	n, h, w, c := 1+r.IntN(3), 9+r.IntN(20), 7+r.IntN(9), 1+r.IntN(9)
	in := programtest.Floats(n, h, w, c)
	var layers []nn.Layer
	for i := range 2 + r.IntN(4) {
		layer := nn.Layer(nil)
		name := fmt.Sprint("layer", i)
		switch r.IntN(7) {
		case 0:
			layer = nn.NewBatchNorm(name, nn.BatchNormConfig{Channels: c})
		case 1:
			layer = nn.NewDropout(name, 0.3)
		case 2:
			kernel, dilation := 1+r.IntN(4), 1+r.IntN(2)
			layer = nn.NewSeparable(name, nn.SeparableConfig{In: c, Out: 1 + c, Kernel: [2]int{kernel, kernel}, Stride: [2]int{1 + r.IntN(2), 1}, Dilation: dilation, Padding: nn.Same})
		default:
			layer, _, _, _ = randomWindow(r, h, w, c)
		}
		layers = append(layers, nn.Sequential(name, layer, nn.Func("relu", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{t.ReLU(in[0])}
		})))
		out := trace.Layers(layers, 0, nil, []graph.Type{in}, nil, true).Out[0].Shape
		if h, w, c = out[1], out[2], out[3]; h < 4 || w < 3 {
			break
		}
	}
	return layers, in
}

// TestDividedStacks: the same for random stacks of convolutions, pools, batch norms, dropouts
// and separable convolutions, of random shapes, strides and paddings, that get images and end
// with images.
func TestDividedStacks(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	stacks := 60
	if testing.Short() {
		stacks = 15
	}
	for i := range stacks {
		layers, in := randomStack(random)
		n := programtest.Network{Layers: layers, In: []graph.Type{in}, Threads: 1 + i%2}
		whole := programtest.CompileLayers(t, n)
		want := trained(whole, []int32{0})
		for parts := 2; parts <= 5; parts++ {
			r := programtest.CompileLayers(t, n).Divide(parts)
			what := fmt.Sprintf("stack %d of %v in %d parts", i, in.Shape, parts)
			want.Same(t, trained(r, []int32{0}), what)
			planned(t, what, r)
			if t.Failed() {
				return
			}
		}
	}
}

// work adds up all instructions.
func work(p *program.Program) (flops, bytes int64) {
	for i := range p.Instrs {
		f, b := p.Instrs[i].Work()
		flops, bytes = flops+f, bytes+b
	}
	return flops, bytes
}

// TestDividedWork: all parts together compute what the undivided network does, exactly, and
// move no fewer bytes.
func TestDividedWork(t *testing.T) {
	testkit.NotRaced(t)
	for name, n := range imageNetworks(t) {
		whole := programtest.CompileLayers(t, n).Stage
		for parts := 2; parts <= 4; parts++ {
			divided := programtest.CompileLayers(t, n).Divide(parts).Stage
			for i, p := range []*program.Program{divided.Forward, divided.Keep, divided.Backward} {
				one := []*program.Program{whole.Forward, whole.Keep, whole.Backward}[i]
				wantFLOPs, least := work(one)
				testkit.Equal(t, one.FLOPs(), wantFLOPs, "%s, %s: %d FLOPs, its costs have", name, one.Name, wantFLOPs)
				if flops, bytes := work(p); flops != wantFLOPs || bytes < least {
					t.Errorf("%s, %s in %d parts: %d FLOPs and %d bytes, want %d and at least %d", name, one.Name, parts, flops, bytes, wantFLOPs, least)
				}
			}
		}
	}
}

// TestDividedTraffic: what parts copy from each other is what the plan says, instruction by
// instruction summed up, with the results that the first part gathers and the turns at
// gradients of weights: each accumulator goes around once an example.
func TestDividedTraffic(t *testing.T) {
	const n, h, w, in, out, parts = 3, 24, 10, 5, 7, 3
	conv := nn.NewConv2D("conv", nn.Conv2DConfig{In: in, Out: out, Kernel: [2]int{3, 3}, Padding: nn.Same})
	r := programtest.CompileLayers(t, programtest.Network{Layers: []nn.Layer{conv}, In: []graph.Type{programtest.Floats(n, h, w, in)}}).Divide(parts)
	var sent [parts][parts]int64
	r.Options.Parts.Sent = func(_ program.Kind, to, from int, bytes int64) { sent[to][from] += bytes }
	planned := func(p *program.Program) {
		t.Helper()
		var all int64
		for _, of := range sent {
			for _, bytes := range of {
				all += bytes
			}
		}
		if _, bytes := p.Exchanged(program.RowsOfImages); bytes != all {
			t.Errorf("%s: %d bytes sent, %d planned", p.Name, all, bytes)
		}
	}
	const row = n * w * 4
	r.Keep()
	// The rows of the input come from the first part, with one beyond each edge; it gathers
	// the others' rows of the output.
	testkit.Equal(t, sent, ([parts][parts]int64{{0, 8 * row * out, 8 * row * out}, {10 * row * in}, {9 * row * in}}), "forward: sent")
	planned(r.Stage.Keep)
	sent = [parts][parts]int64{}
	r.Backward()
	planned(r.Stage.Backward)
	const weights = 3 * 3 * in * out * 4 * n
	if want := ([parts][parts]int64{
		{0, 8 * row * in, 8*row*in + weights},
		{10*row*in + 10*row*out + weights},
		{9*row*in + 9*row*out, weights},
	}); sent != want {
		t.Errorf("backward: sent %v, want %v", sent, want)
	}
}

// TestPassedOn: what a stage only passes on stays on its first part, which gets it and hands
// it over.
func TestPassedOn(t *testing.T) {
	pass := nn.Func("pass", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return in })
	r := programtest.CompileLayers(t, programtest.Network{Layers: []nn.Layer{pass}, In: []graph.Type{programtest.Floats(2, 9, 4, 3)}}).Divide(3)
	r.Options.Parts.Sent = func(_ program.Kind, to, from int, bytes int64) {
		t.Errorf("%d bytes from part %d to %d", bytes, from, to)
	}
	fillBatch(r, 0, []int32{0})
	r.Keep()
	r.Backward()
}

// TestDividedSmaller: programs for fewer examples keep within those for more, and have the
// bits of the undivided network.
func TestDividedSmaller(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for i := range 12 {
		layers, in := randomStack(random)
		compile := func(examples int) *programtest.Runner {
			in := in
			in.Shape = append(graph.Shape{examples}, in.Shape[1:]...)
			return programtest.CompileLayers(t, programtest.Network{Layers: layers, In: []graph.Type{in}})
		}
		small, large := compile(2), compile(5)
		want := trained(small, []int32{0})
		for parts := 2; parts <= 3; parts++ {
			room := testkit.Must(large.Stage.Divide(parts, nil))(t)
			r := small.DivideWithin(parts, room)
			for s, span := range r.Stage.Span {
				if span > room.Span[s] {
					t.Errorf("stack %d in %d parts: %d floats of %v, with %d of the larger", i, parts, span, program.Space(s), room.Span[s])
				}
			}
			want.Same(t, trained(r, []int32{0}), fmt.Sprintf("stack %d of %v in %d parts, small", i, in.Shape, parts))
		}
	}
}

// TestDividedEvaluation: programs without residuals or gradients.
func TestDividedEvaluation(t *testing.T) {
	for name, n := range imageNetworks(t) {
		n.Evaluate = true
		outputs := func(r *programtest.Runner) programtest.Results {
			fillBatch(r, 0, []int32{0, 4})
			r.Forward()
			got := programtest.Results{}
			got.Outputs(r, 0)
			return got
		}
		whole := programtest.CompileLayers(t, n)
		outputs(whole).Same(t, outputs(whole.Divide(3)), name)
	}
}

// TestRefusedDivisions: what cannot be divided is named with what could be.
func TestRefusedDivisions(t *testing.T) {
	n := imageNetworks(t)["resnet"]
	for want, change := range map[string]func(n *programtest.Network){
		"parts of images with a backward function in two: want a schedule without W": func(n *programtest.Network) { n.Split = true },
		"parts of images with activations of type bf16: want f32":                    func(n *programtest.Network) { n.Storage = program.BF16 },
	} {
		n := n
		change(&n)
		_, err := programtest.CompileLayers(t, n).Stage.Divide(2, nil)
		testkit.Equal(t, fmt.Sprint(err), want)
	}
	_, err := programtest.CompileLayers(t, n).Stage.Divide(1, nil)
	testkit.Equal(t, fmt.Sprint(err), "1 parts of images: want 2 or more")
}
