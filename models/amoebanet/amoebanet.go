// Package amoebanet builds AmoebaNet-D and AmoebaNet-B (Real et al. 2019) of any
// size as lists of pipeline layers: AmoebaNet-D(L, D) has L normal cells and D
// filters.
//
// The definition of AmoebaNet-D is the one whose parameters are exactly those of
// GPipe's Table 1: that of torchgpipe (benchmarks/models/amoebanet of its
// repository, [T] in the following), which takes the cells from TensorFlow's
// official code (models/official/amoeba_net of tensorflow/tpu, [A]). Where the
// two differ in more than the parameters, this package follows [A]: max pools in
// the cells are max pools, padding is TensorFlow's SAME, and the stem has no
// ReLU before it.
//
// AmoebaNet-B is [A]'s (model_specs.py names the operations of its cells), with
// [A]'s stem: AmoebaNet-B (18, 512) then has the 557M parameters of GPipe's
// section 4. A separable convolution in a cell is two of them, each after a ReLU
// and before a batch norm, as in NASNet (Zoph et al. 2018). [A]'s name of one
// operation is dil_2_separable_5x5_2, but its code does not dilate; ours does, as
// the name says, with the same parameters.
package amoebanet

import (
	"fmt"

	"gpipebench/nn"
)

// Cells are the operations of a network's cells.
type Cells uint8

const (
	D Cells = iota // AmoebaNet-D's
	B              // AmoebaNet-B's, with separable convolutions
)

// Config describes a model.
type Config struct {
	Cells   Cells
	Layers  int // L: normal cells, in three stacks; a multiple of 3, at least 3
	Filters int // D: filters of the first stack's cells; a multiple of 8, or with Official of 16
	Classes int // at least 1

	Image    int // height and width in pixels, at least 17; 0: 224
	Channels int // of the images; 0: 3

	// DropPath is the rate at which branches of the last cell are left out, in
	// [0, 1); 0: none. Cell i of n (including reductions, i from 1) has i/n of
	// it. It applies to every branch of a cell except identities: [A]'s
	// drop-connect "v2".
	DropPath float32
	// DropPathSteps is the number of steps over which the rates rise from 0; 0:
	// they do not. [A]'s "v3" rises so as well, its "v1" with the steps alone.
	DropPathSteps int
	// DropPathEven gives all cells the same rate.
	DropPathEven bool
	Dropout      float32 // rate before the classifier, in [0, 1); 0: none. [A]: 0.5

	// Aux adds [A]'s auxiliary head after the second stack, for training only.
	// Its logits are passed on to the end, for an [nn.AuxiliaryLoss].
	Aux bool
	// AuxScale multiplies the widths of the auxiliary head, 128 and 768; 0: 0.4,
	// as in [A].
	AuxScale float64

	// Official selects [A]'s stem: a convolution with 32 filters and no
	// padding, and two reduction cells with D/4 and D/2 filters instead of D/2
	// and D. It also adds [A]'s ReLU before the final pool. AmoebaNet-B always
	// has them.
	Official bool
	// Delayed lowers the stride of the stem's convolution to 1 and raises that
	// of the last cell's incoming convolutions to 2 (the first version of the
	// GPipe paper, section 5: "we reduced the stride value of the first
	// convolution layer and increased the stride value at the last convolution
	// layer"): the same parameters, about four times the activations.
	Delayed bool

	// Momentum is the share of their value that batch norm's moving averages
	// keep at each mini-batch, in [0, 1); 0: 0.9, for runs of few steps. [A]:
	// 0.9997.
	Momentum float64
}

// New builds a model of L+6 pipeline layers: "stem", "reduction1",
// "reduction2", the first stack of "normal1", "normal2", ..., "reduction3", the
// second stack, "reduction4", the third stack, and "classifier".
//
// Its inputs are images (n, h, w, channels). The value between the cells is a
// pair: the newest cell's output and the one before it; after an auxiliary head
// also its logits, in training. The outputs are the logits (n, classes),
// followed by the auxiliary ones.
func New(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	b := &builder{Config: c}
	layers := []nn.Layer{nn.Sequential("stem", b.stem())}
	stemFilters := c.Filters / 2
	if c.Official {
		stemFilters = c.Filters / 4
	}
	layers = append(layers, b.reduction(stemFilters), b.reduction(2*stemFilters))
	for stack := range 3 {
		filters := c.Filters << stack
		if stack > 0 {
			layers = append(layers, b.reduction(filters))
		}
		for range c.Layers / 3 {
			layers = append(layers, b.normal(filters))
		}
	}
	return append(layers, nn.Sequential("classifier", b.classifier())), nil
}

// builder is the state of a model under construction.
type builder struct {
	Config
	newest, before int  // channels of the pair; before is 0 after the stem
	reduced        bool // the newest cell is a reduction, so the one before it has larger images
	reductions     int
	normals        int
}

// reduction builds the next reduction cell.
func (b *builder) reduction(filters int) nn.Layer {
	b.reductions++
	c := b.cell(filters, 1)
	build, channels := b.reductionD, 3*filters
	if b.Cells == B {
		build, channels = b.reductionB, 2*filters
	}
	b.newest, b.before, b.reduced = channels, b.newest, true
	return nn.Sequential(fmt.Sprint("reduction", b.reductions), build(c))
}

// normal builds the next normal cell, with the auxiliary head after the last
// one of the second stack.
func (b *builder) normal(filters int) nn.Layer {
	b.normals++
	stride := 1
	if b.Delayed && b.normals == b.Layers {
		stride = 2
	}
	build := b.normalD
	if b.Cells == B {
		build = b.normalB
	}
	parts := []nn.Layer{build(b.cell(filters, stride))}
	b.newest, b.before, b.reduced = 4*filters, b.newest, false
	if b.Aux && b.normals == 2*b.Layers/3 {
		parts = append(parts, b.auxiliary())
	}
	return nn.Sequential(fmt.Sprint("normal", b.normals), parts...)
}
