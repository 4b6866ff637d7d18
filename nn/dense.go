package nn

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// DenseConfig describes a dense layer.
type DenseConfig struct {
	In, Out    int         // widths, at least 1
	Activation Activation  // applied after the bias; zero: none
	NoBias     bool        // zero: there is one
	ByInputs   bool        // parts of a stage can divide the inputs, whose products are then summands (program.Stage.Split)
	Transposed bool        // the weight is (out, in), as in PyTorch and in published files; zero: (in, out)
	Init       Initializer // of the weight, which takes the shape as (in, out); nil: GlorotUniform
	BiasInit   Initializer // nil: Zeros
}

// Dense is y = activation(x·W + b) over the last dimension of x.
type Dense struct {
	Weight *Param // (in, out), or (out, in) if Transposed
	Bias   *Param // (out), or nil

	named
	config DenseConfig
}

// NewDense returns a dense layer. Its parameters are name/weight and name/bias.
func NewDense(name string, c DenseConfig) (l *Dense) {
	l = &Dense{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("dense", name, "In", c.In)
	wantPositive("dense", name, "Out", c.Out)
	if !c.Activation.valid() {
		misuse("dense", name, "unknown activation %s", c.Activation)
	}
	if c.NoBias && c.BiasInit != nil {
		misuse("dense", name, "BiasInit without a bias")
	}
	shape, init := graph.Shape{c.In, c.Out}, orInit(c.Init, GlorotUniform())
	if c.Transposed {
		fans, untransposed := shape, init
		shape = graph.Shape{c.Out, c.In}
		init = func(r *philox.Stream, _ graph.Shape, dst []float32) { untransposed(r, fans, dst) }
	}
	l.Weight = l.own("weight", Param{Shape: shape, Init: init})
	if !c.NoBias {
		l.Bias = l.own("bias", Param{Shape: graph.Shape{c.Out}, Init: orInit(c.BiasInit, Zeros()), NoDecay: true})
	}
	if c.ByInputs {
		l.byRows(c.In)
	}
	return l
}

// byColumns says that parts can divide the results by units, whose number is given for one section;
// and byRows that they can divide the inputs, whose results are then summands.
func (d *Dense) byColumns(sections, units int) *Dense {
	d.fit()
	d.Weight.Split = graph.Split{Axis: d.axis(1), Sections: sections, Units: units}
	if d.Bias != nil {
		d.Bias.Split = graph.Split{Sections: sections, Units: units}
	}
	return d
}

func (d *Dense) byRows(units int) *Dense {
	d.Weight.Split = graph.Split{Axis: d.axis(0), Sections: 1, Units: units}
	return d
}

// axis is the weight's axis of the inputs, 0, or of the results, 1.
func (d *Dense) axis(of int) int {
	if d.config.Transposed {
		return 1 - of
	}
	return of
}

// Forward takes x (..., in) and returns (..., out).
func (d *Dense) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("dense", d.name, in, 1)
	wantWidth("dense", d.name, in[0], d.config.In)
	product := t.MatMul
	if d.config.Transposed {
		product = t.MatMulT
	}
	y := product(in[0], t.Param(d.Weight))
	if d.Bias != nil {
		y = t.AddBias(y, t.Param(d.Bias))
	}
	return []*graph.Node{activations[d.config.Activation].apply(t, y)}
}

// orInit returns init, or instead if init is nil.
func orInit(init, instead Initializer) Initializer {
	if init == nil {
		return instead
	}
	return init
}
