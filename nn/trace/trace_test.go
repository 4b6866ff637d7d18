package trace_test

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/trace"
)

// What does not fit is refused with the name of the pipeline layer, whatever its
// parts are called, and with values by their origin.
func TestMisuseNamesTheLayer(t *testing.T) {
	in := []graph.Type{{Shape: graph.Shape{4, 5}, DType: graph.F32}}
	f := func(f func(t *nn.Trace, x *graph.Node) *graph.Node) nn.Layer {
		return nn.Func("own", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return []*graph.Node{f(t, in[0])} })
	}
	dense := func(in, out int) nn.Layer { return nn.NewDense("", nn.DenseConfig{In: in, Out: out}) }
	for want, layers := range map[string][]nn.Layer{
		"layer d1: nn: dense: input 0 f32(4,5) comes in with rows of 5, want rows of 7": {nn.Sequential("d1", dense(7, 3))},
		"layer d2: nn: dense: the output of layer d1 f32(4,3) comes in with rows of 3, want rows of 2": {
			nn.Sequential("d1", dense(5, 3), nn.NewActivation("", nn.ReLU)), nn.Sequential("d2", dense(2, 2)),
		},
		`layer block: nn: dense "in": bias f32(4,3) comes in with rows of 3, want rows of 2`: {
			nn.Sequential("block", dense(5, 3), nn.NewDense("in", nn.DenseConfig{In: 2, Out: 2})),
		},
		"layer own: graph: add: inputs input 0 f32(4,5) and sum f32(4) differ": {
			f(func(t *nn.Trace, x *graph.Node) *graph.Node { return t.Add(x, t.Sum(x)) }),
		},
		"layer own: nn: result 0 is nil": {f(func(*nn.Trace, *graph.Node) *graph.Node { return nil })},
		"layer own: nn: layer own uses the parameter slope that its Params does not list": {
			f(func(t *nn.Trace, _ *graph.Node) *graph.Node { return t.Param(&nn.Param{Name: "slope"}) }),
		},
		"nn: layer 1 of the network is nil":                                                      {dense(5, 3), nil},
		"nn: layer own lists a parameter that is nil":                                            {nn.Func("own", same, nil)},
		"nn: the loss trace_test.unended starts no gradient: want its first result from EndLoss": {nn.Func("own", same)},
	} {
		testkit.PanicsFirst(t, func() { trace.Layers(layers, 0, unended{}, in, nil, true) }, want)
	}
}

func same(_ *nn.Trace, in ...*graph.Node) []*graph.Node { return in }

// unended is a loss that forgets to end.
type unended struct{}

func (unended) Loss(t *nn.Trace, out, _ []*graph.Node) []*graph.Node {
	return []*graph.Node{t.Sum(out[0])}
}
