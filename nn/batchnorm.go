package nn

import (
	"cmp"

	"gpipebench/nn/graph"
)

// BatchNormConfig describes a batch normalisation.
type BatchNormConfig struct {
	Channels int // width of the last dimension, at least 1
	// Eps is added to the variance, inside the root; 0: 1e-5.
	Eps float32
	// Momentum is the share of its value that a moving average keeps at each
	// mini-batch, in [0, 1); 0: 0.9.
	Momentum float64
	// Unbiased selects the variance estimate with n-1 for the moving average,
	// as PyTorch and TensorFlow's fused kernel do; zero: the biased one, with
	// n.
	Unbiased bool
	ReLU     bool        // apply max(., 0) to the result, in the same pass over memory
	Init     Initializer // of gamma; nil: Ones
}

// BatchNorm normalises each channel over the examples and pixels of a
// micro-batch and applies a gain and an offset (Ioffe and Szegedy 2015).
//
// As in GPipe (Huang et al. 2019, section 2.2), training normalises by the
// statistics of the micro-batch, of one replica or of all (gpipe.Scope). The moving averages move once per mini-batch,
// by the statistics of the whole mini-batch: counts, means and sums of squared
// deviations of its micro-batches are combined, whatever their sizes. A
// recomputation adds nothing. Evaluation normalises by the moving averages.
type BatchNorm struct {
	Gamma, Beta    *Param // (channels)
	Mean, Variance *Param // (channels), moving averages

	named
	config BatchNormConfig
}

// NewBatchNorm returns a batch normalisation. Its parameters are name/gamma and
// name/beta, its moving averages name/moving_mean and name/moving_variance,
// which start from 0 and 1.
func NewBatchNorm(name string, c BatchNormConfig) (l *BatchNorm) {
	c.Eps = cmp.Or(c.Eps, 1e-5)
	c.Momentum = cmp.Or(c.Momentum, 0.9)
	l = &BatchNorm{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("batch norm", name, "Channels", c.Channels)
	wantEps("batch norm", name, c.Eps)
	if !(c.Momentum >= 0 && c.Momentum < 1) {
		misuse("batch norm", name, "Momentum is %v, want at least 0 and less than 1", c.Momentum)
	}
	shape := graph.Shape{c.Channels}
	l.Gamma = l.own("gamma", Param{Shape: shape, Init: orInit(c.Init, Ones()), NoDecay: true})
	l.Beta = l.own("beta", Param{Shape: shape, Init: Zeros(), NoDecay: true})
	l.Mean = l.own("moving_mean", Param{Shape: shape, Init: Zeros(), Frozen: true, State: true})
	l.Variance = l.own("moving_variance", Param{Shape: shape, Init: Ones(), Frozen: true, State: true})
	return l
}

// Forward takes x (..., channels) and returns the same shape.
func (n *BatchNorm) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("batch norm", n.name, in, 1)
	wantWidth("batch norm", n.name, in[0], n.config.Channels)
	x, gamma, beta := in[0], t.Param(n.Gamma), t.Param(n.Beta)
	if !t.Train {
		y := t.BatchNormEval(x, t.Param(n.Mean), t.Param(n.Variance), gamma, beta, n.config.Eps, n.config.ReLU)
		return []*graph.Node{y}
	}
	if rows := x.Shape.Rows(); rows < 2 && !t.OverReplicas {
		misuse("batch norm", t.Path(n.name), "%d value per channel in %s: training wants at least 2, that is larger micro-batches or larger images", rows, x)
	}
	y, tally := t.BatchNorm(x, gamma, beta, n.config.Eps, n.config.ReLU)
	t.state.Moving = append(t.state.Moving, Moving{
		Mean: n.Mean, Variance: n.Variance, Momentum: n.config.Momentum, Unbiased: n.config.Unbiased, Tally: tally,
	})
	return []*graph.Node{y}
}
