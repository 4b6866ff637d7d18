package nn_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
)

// oracleTolerance bounds the error of a layer's forward and backward, in units
// of a tensor's largest magnitude: a few successive roundings of float32 (6e-8
// each).
const oracleTolerance = 1e-6

// comparison is a layer and the names of PyTorch's tensors: its results are name/y and
// name/dx.
type comparison struct {
	name      string
	layer     nn.Layer
	in        []string             // the first has a gradient
	dy        string               // "": name/dy
	params    map[string][2]string // by path within the layer, the value and its gradient
	tolerance float64              // 0: oracleTolerance
}

var integers = map[string]bool{"lengths": true, "index": true}

func (c comparison) run(t *testing.T, oracle *programtest.Oracle) {
	n := programtest.Network{Layers: []nn.Layer{nn.Sequential("layer", c.layer)}}
	for _, name := range c.in {
		in := programtest.Floats(oracle.Shape(name)...)
		if integers[name] {
			in.DType = graph.I32
		}
		n.In = append(n.In, in)
	}
	r := programtest.CompileLayers(t, n)
	for i, name := range c.in {
		if integers[name] {
			copy(programtest.Ints(r.In(i)), oracle.Ints(name))
		} else {
			copy(r.In(i), oracle.Floats(name))
		}
	}
	if c.dy == "" {
		c.dy = c.name + "/dy"
	}
	copy(r.DOut(0), oracle.Floats(c.dy))
	for path, names := range c.params {
		copy(r.Param("layer/"+path), oracle.Floats(names[0]))
	}
	r.Keep()
	r.Backward()
	c.tolerance = max(c.tolerance, oracleTolerance)
	oracle.Close(t, c.name+"/y", r.Out(0), c.tolerance)
	oracle.Close(t, c.name+"/dx", r.DIn(0), c.tolerance)
	for path, names := range c.params {
		oracle.Close(t, names[1], r.Grad("layer/"+path), c.tolerance)
	}
}

// config is what the oracle's script writes of the cases of a file.
type config struct {
	Dim, Heads, Width, Hidden int
	Time                      int
	Theta                     float64
	Eps                       float32
	Channels                  json.RawMessage
	Functions                 []string
	Cases                     json.RawMessage // names, or windows by name
}

// windowCase is a kernel, a stride and a padding.
type windowCase struct {
	Kernel, Stride [2]int
	Padding        json.RawMessage // "same", "valid", or top, bottom, left, right
	Dilation       int
}

func (c windowCase) padding(t *testing.T) nn.Padding {
	var edges [4]int
	switch string(c.Padding) {
	case `"same"`:
		return nn.Same
	case `"valid"`:
		return nn.Valid
	}
	decode(t, c.Padding, &edges)
	return nn.Pads(edges[0], edges[1], edges[2], edges[3])
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal(text, into))
}

// TestLayersAgainstPyTorch: attention with all four masks; grouped-query attention with rotary
// positions, of one head of keys, several and as many as queries; a gated feed-forward layer; RMS norm of
// rows of zeros, too; layer norm of rows with a large
// mean, where a variance from a sum of squares would be lost, of rows so small that
// epsilon matters, and of constant ones; recurrent layers of one direction and both, with
// and without lengths, hoisted and inside; convolutions with every kernel of the models at
// both strides, odd sizes and crops, depthwise ones also dilated; pools, where padding
// takes no part in a maximum and does not count in a mean; and sums, copies, other shapes
// and the functions of rows.
func TestLayersAgainstPyTorch(t *testing.T) {
	for file, cases := range map[string]func(t *testing.T, c config) []comparison{
		"attention": attentionCases, "grouped": groupedCases, "layernorm": normCases, "rmsnorm": rmsCases, "gated": gatedCases, "lstm": lstmCases,
		"convolution": windowCases, "depthwise": windowCases, "pools": windowCases, "shaping": shapingCases,
	} {
		oracle := programtest.ReadOracle(t, "testdata/"+file+".json")
		var c config
		oracle.Config(&c)
		all := cases(t, c)
		if len(all) == 0 {
			t.Errorf("%s: no cases", file)
		}
		for _, c := range all {
			t.Run(file+"/"+c.name, func(t *testing.T) { c.run(t, oracle) })
		}
	}
}

// names decodes the cases' names.
func (c config) names(t *testing.T) (names []string) { decode(t, c.Cases, &names); return names }

func attentionCases(t *testing.T, c config) (all []comparison) {
	for _, name := range c.names(t) {
		a := nn.AttentionConfig{
			Dim: c.Dim, Heads: c.Heads,
			Causal: name == "causal" || name == "both", Padded: name == "padding" || name == "both",
		}
		one := comparison{name: name, layer: nn.NewAttention("", a), in: []string{"x"}, dy: "dy", params: map[string][2]string{}}
		if a.Padded {
			one.in = append(one.in, "lengths")
		}
		for _, p := range []string{"qkv/weight", "qkv/bias", "out/weight", "out/bias"} {
			one.params[p] = [2]string{"param/" + p, name + "/grad/" + p}
		}
		all = append(all, one)
		if !a.Padded {
			one.layer = writtenOut(c.Dim, c.Heads, a.Causal)
			all = append(all, one)
		}
	}
	return all
}

// writtenOut is the attention layer of 5 steps made of single operations: with its parameters it
// has the same results.
func writtenOut(dim, heads int, causal bool) nn.Layer {
	const time = 5
	each := dim / heads
	qkv, out := nn.NewDense("qkv", nn.DenseConfig{In: dim, Out: 3 * dim}), nn.NewDense("out", nn.DenseConfig{In: dim, Out: dim})
	unseen := &nn.Param{Name: "unseen", Shape: graph.Shape{time, time}, Frozen: true, Init: func(_ *philox.Stream, _ graph.Shape, mask []float32) {
		for i := range mask {
			mask[i] = 0
			if causal && i%time > i/time {
				mask[i] = -1e9
			}
		}
	}}
	return nn.Func("written out", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		all := qkv.Forward(t, in...)[0]
		part := func(i int) *graph.Node { // (n, heads, time, each)
			return t.Transpose(t.Reshape(t.Slice(all, i*dim, (i+1)*dim), time, heads, each), 1, 2)
		}
		scores := t.Scale(t.BatchMatMulT(part(0), part(1)), float32(1/math.Sqrt(float64(each))))
		scores = t.Add(scores, t.Repeat(t.Repeat(t.Param(unseen), 0, in[0].Shape[0]), 1, heads))
		e := t.Exp(t.Sub(scores, t.Repeat(t.Max(scores, 3), 3, time)))
		o := t.BatchMatMul(t.Div(e, t.Repeat(t.Sum(e, 3), 3, time)), part(2))
		return out.Forward(t, t.Reshape(t.Transpose(o, 1, 2), time, dim))
	}, append(nn.ParamsOf(qkv, out), unseen)...)
}

func normCases(t *testing.T, c config) (all []comparison) {
	for _, name := range c.names(t) {
		one := comparison{
			name: name, layer: nn.NewLayerNorm("", nn.LayerNormConfig{Dim: 7, Eps: c.Eps}), in: []string{name + "/x"},
			params: map[string][2]string{"gamma": {"gamma", name + "/dgamma"}, "beta": {"beta", name + "/dbeta"}},
		}
		if name == "large-mean" {
			// A mean of a thousand is rounded by 3e-5, which the deviations around it
			// (1 and more) inherit.
			one.tolerance = 1e-4
		}
		all = append(all, one)
	}
	return all
}

func rmsCases(t *testing.T, c config) (all []comparison) {
	for _, name := range c.names(t) {
		all = append(all, comparison{
			name: name, layer: nn.NewRMSNorm("", nn.RMSNormConfig{Dim: 7, Eps: c.Eps}), in: []string{name + "/x"},
			params: map[string][2]string{"gamma": {"gamma", name + "/dgamma"}},
		})
	}
	return all
}

func gatedCases(_ *testing.T, c config) []comparison {
	one := comparison{
		name: "gated", layer: nn.NewGatedFeedForward("", nn.GatedFeedForwardConfig{Dim: c.Width, Hidden: c.Hidden}), in: []string{"x"},
		params: map[string][2]string{},
	}
	for _, p := range []string{"gate/weight", "up/weight", "down/weight"} {
		one.params[p] = [2]string{"param/" + p, "gated/grad/" + p}
	}
	return []comparison{one}
}

func groupedCases(t *testing.T, c config) (all []comparison) {
	var cases map[string]int // heads of keys
	decode(t, c.Cases, &cases)
	for name, kvHeads := range cases {
		one := comparison{
			name: name, in: []string{"x"}, dy: "dy", params: map[string][2]string{}, tolerance: 2e-6, // both rotations round
			layer: nn.NewGroupedAttention("", nn.GroupedAttentionConfig{
				Dim: c.Dim, Heads: c.Heads, KVHeads: kvHeads, HeadDim: c.Width, Causal: strings.HasSuffix(name, "causal"),
				Angles: nn.NewRotaryAngles("angles", c.Theta, c.Time, c.Width),
			}),
		}
		for _, p := range []string{"q/weight", "k/weight", "v/weight", "out/weight"} {
			one.params[p] = [2]string{name + "/param/" + p, name + "/grad/" + p}
		}
		all = append(all, one)
	}
	return all
}

func lstmCases(t *testing.T, c config) (all []comparison) {
	for _, name := range c.names(t) {
		for _, inside := range []bool{false, true} {
			l := nn.LSTMConfig{
				In: c.Width, Hidden: c.Hidden, Inside: inside,
				Bidirectional: strings.HasPrefix(name, "both"), Padded: strings.HasSuffix(name, "padded"),
			}
			// The roundings of all its steps.
			one := comparison{name: name, layer: nn.NewLSTM("", l), in: []string{"x"}, params: map[string][2]string{}, tolerance: 2e-6}
			if l.Padded {
				one.in = append(one.in, "lengths")
			}
			ways := map[string]string{"forward": ""}
			if l.Bidirectional {
				ways = map[string]string{"forward": "forward/", "backward": "backward/"}
			}
			for way, at := range ways {
				for _, p := range []string{"input/weight", "input/bias", "recurrent/weight"} {
					one.params[at+p] = [2]string{"param/" + way + "/" + p, name + "/grad/" + way + "/" + p}
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// windowCases are cases of convolutions, whose file has the channels of input and output,
// of depthwise ones, whose file has one number of channels, or of pools, whose has none.
func windowCases(t *testing.T, c config) (all []comparison) {
	var cases map[string]windowCase
	decode(t, c.Cases, &cases)
	for name, w := range cases {
		add := func(name string, layer nn.Layer, weight string) {
			one := comparison{name: name, layer: layer, in: []string{"x"}}
			if weight != "" {
				one.params = map[string][2]string{"weight": {weight, name + "/dw"}}
			}
			all = append(all, one)
		}
		var channels [2]int
		switch {
		case len(c.Channels) == 0:
			p := nn.PoolConfig{Kernel: w.Kernel, Stride: w.Stride, Padding: w.padding(t)}
			add(name+"/max", nn.NewMaxPool("", p), "")
			add(name+"/average", nn.NewAvgPool("", p), "")
		case w.Dilation > 0:
			decode(t, c.Channels, &channels[0])
			add(name, nn.NewDepthwise("", nn.DepthwiseConfig{
				Channels: channels[0], Kernel: w.Kernel, Stride: w.Stride, Dilation: w.Dilation, Padding: w.padding(t),
			}), name+"/w")
		default:
			decode(t, c.Channels, &channels)
			add(name, nn.NewConv2D("", nn.Conv2DConfig{
				In: channels[0], Out: channels[1], Kernel: w.Kernel, Stride: w.Stride, Padding: w.padding(t),
			}), "w/"+name[:3])
		}
	}
	if len(c.Channels) == 0 {
		all = append(all, comparison{name: "global", layer: nn.NewGlobalAvgPool(""), in: []string{"x"}})
	}
	return all
}

func shapingCases(_ *testing.T, c config) (all []comparison) {
	functions := map[string]func(t *nn.Trace, in ...*graph.Node) *graph.Node{
		"exp":         func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Exp(in[0]) },
		"log":         func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Log(in[0]) },
		"sub":         func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Sub(in[0], in[1]) },
		"softmax":     func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Softmax(in[0]) },
		"sum1":        func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Sum(in[0], 1) },
		"sum13":       func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Sum(in[0], 3, 1) },
		"mean":        func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Mean(in[0]) },
		"repeat2":     func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Repeat(in[0], 2, 6) },
		"flatten":     func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Flatten(in[0]) },
		"reshape":     func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Reshape(in[0], 10, -1) },
		"transpose13": func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Transpose(in[0], 1, 3) },
		"div":         func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Div(in[0], in[1]) },
		"div-by":      func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Div(in[1], in[0]) },
		"sqrt":        func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Sqrt(in[0]) },
		"max2":        func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Max(in[0], 2) },
		"gather":      func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.Gather(in[0], in[1]) },
		"matmul":      func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.BatchMatMul(in[0], in[1]) },
		"matmul-by":   func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.BatchMatMul(in[1], in[0]) },
		"matmul-t":    func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.BatchMatMulT(in[0], in[1]) },
		"matmul-t-by": func(t *nn.Trace, in ...*graph.Node) *graph.Node { return t.BatchMatMulT(in[1], in[0]) },
	}
	inputs := map[string][]string{
		"log": {"positive"}, "sub": {"x", "positive"}, "div": {"x", "positive"}, "div-by": {"positive", "x"}, "sqrt": {"positive"},
		"gather": {"x", "index"}, "matmul": {"x", "right"}, "matmul-by": {"right", "x"}, "matmul-t": {"x", "rows"}, "matmul-t-by": {"rows", "x"},
	}
	for _, name := range c.Functions {
		one := comparison{name: name, in: []string{"x"}}
		one.layer = nn.Func("", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{functions[name](t, in...)}
		})
		if in := inputs[name]; in != nil {
			one.in = in
		}
		all = append(all, one)
	}
	return all
}
