package nn

import (
	"math"
	"path"

	"gpipebench/nn/graph"
)

// LSTMConfig describes a recurrent layer.
type LSTMConfig struct {
	In     int // width of the input, at least 1
	Hidden int // units of each direction, at least 1
	// Bidirectional adds a second scan from the end to the beginning, with parameters of
	// its own, whose states stand beside those of the first.
	Bidirectional bool
	Padded        bool // the last input is a tensor of lengths: at and beyond a length the states are 0
	// Inside projects the input in every step instead of once before the loop, to be
	// compared with. Gradients of parameters then depend on the micro-batches: see
	// op.LSTM.
	Inside bool
	Init   Initializer // of weights and biases; nil: Uniform(Hidden^-0.5), as PyTorch's
}

// lstmWay is one direction of a recurrent layer.
type lstmWay struct {
	input     *Dense // (in, 4*hidden)
	recurrent *Param // (hidden, 4*hidden)
}

// NewLSTM returns a layer of long short-term memory (Hochreiter and Schmidhuber 1997),
// which starts from a state of zeros. Its formulas are with op.LSTM; the gates i,
// f, g and o stand side by side in this order.
//
// It takes x (n, t, in) and, if padded, lengths (n) int32, and returns the states (n, t,
// hidden), or (n, t, 2*hidden) of both directions. Its parameters are name/input/weight,
// name/input/bias and name/recurrent/weight; with two directions those of name/forward
// and name/backward.
func NewLSTM(name string, c LSTMConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("lstm", name, "In", c.In)
	wantPositive("lstm", name, "Hidden", c.Hidden)
	init := orInit(c.Init, Uniform(1/math.Sqrt(float64(c.Hidden))))
	var ways []lstmWay
	var params []*Param
	way := func(name string) {
		w := lstmWay{
			NewDense(path.Join(name, "input"), DenseConfig{In: c.In, Out: 4 * c.Hidden, Init: init, BiasInit: init}),
			&Param{Name: path.Join(name, "recurrent/weight"), Shape: graph.Shape{c.Hidden, 4 * c.Hidden}, Init: init},
		}
		ways, params = append(ways, w), append(append(params, w.input.Params()...), w.recurrent)
	}
	if c.Bidirectional {
		way(path.Join(name, "forward"))
		way(path.Join(name, "backward"))
	} else {
		way(name)
	}
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		lengths := wantLengths("lstm", name, in, 1, c.Padded)
		x := in[0]
		wantWidth("lstm", name, x, c.In)
		var states []*graph.Node
		for i, w := range ways {
			reverse, recurrent := i == 1, t.Param(w.recurrent)
			if c.Inside {
				states = append(states, t.LSTMInside(x, t.Param(w.input.Weight), t.Param(w.input.Bias), recurrent, lengths, reverse))
			} else {
				states = append(states, t.LSTM(w.input.Forward(t, x)[0], recurrent, lengths, reverse))
			}
		}
		if len(states) == 1 {
			return states
		}
		return []*graph.Node{t.Concat(states...)}
	}, params...)
}
