package plan

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// LayerInfo describes one layer by its shapes, per example.
type LayerInfo struct {
	Name       string        `json:"name"`
	Params     int64         `json:"params"`                    // trained ones; a tied one counts in the first layer that lists it
	FLOPs      int64         `json:"flops"`                     // forward, 2 x multiply-adds of matrix products and convolutions
	Attention  int64         `json:"attention_flops,omitempty"` // of these, of attention's two products
	Masked     int64         `json:"masked_flops,omitempty"`    // of these, half of the products under a causal mask
	OutShape   []graph.Shape `json:"out_shape"`
	SavedBytes int64         `json:"saved_bytes"` // residuals that its backward needs

	cost float64 // what a partitioner balances: FLOPs, or the layer's own figure
}

// Description is a network, described layer by layer.
type Description struct {
	Params int64
	Layers []LayerInfo
	// OutsideContract names the operations outside the arithmetic contract: those of a
	// caller who promises nothing (graph.NoPromise). The same bits for every way to run
	// are promised only if there are none.
	OutsideContract []string
}

// FLOPs are the layers' costs for a partitioner: the derived ones, or a layer's own
// figure (GPipe's optional c_i).
func (d *Description) FLOPs() []float64 {
	costs := make([]float64, len(d.Layers))
	for i, l := range d.Layers {
		costs[i] = l.cost
	}
	return costs
}

// Memory has the layers' costs in bytes: parameters with gradients and two
// optimiser slots, and the residuals of one example.
func (d *Description) Memory() []float64 {
	costs := make([]float64, len(d.Layers))
	for i, l := range d.Layers {
		costs[i] = float64(16*l.Params + l.SavedBytes)
	}
	return costs
}

// Describe is gpipe.Pipeline.Describe, or, if the network is not compiled, Counted.
func (p Config) Describe(in Input, compiled bool) (*Description, error) {
	d, err := p.describeFor(in, 1, compiled)
	if err != nil {
		if two, e := p.describeFor(in, 2, compiled); e == nil {
			return two, nil
		}
	}
	return d, err
}

// describeFor traces the network for the given number of examples, and compiles it for what it
// saves; its figures are per example.
func (p Config) describeFor(in Input, examples int, compiled bool) (d *Description, err error) {
	defer Misfit(&err)
	st := trace.Layers(p.Layers, 0, p.Loss, BatchOf(in.Inputs, examples), BatchOf(in.Targets, examples), true)
	if err := countable(p.Layers, program.Storage{}, []*trace.Stage{st}, 1); err != nil {
		return nil, err
	}
	d = &Description{Params: nn.CountParams(p.Layers), OutsideContract: st.Function.Graph.OutsideContract()}
	for i, l := range p.Layers {
		info := LayerInfo{Name: l.Name()}
		for _, n := range st.LayerOut[i] {
			info.OutShape = append(info.OutShape, n.Shape[1:])
		}
		d.Layers = append(d.Layers, info)
	}
	eachParam(p.Layers, func(layer int, q *nn.Param) {
		if !q.Frozen {
			d.Layers[layer].Params += int64(q.Shape.Elems())
		}
	})
	for _, c := range st.Function.Graph.Calls {
		if c.Layer < len(d.Layers) {
			d.Layers[c.Layer].FLOPs += c.FLOPs()
			if attention, ok := c.Op.(op.Attention); ok {
				d.Layers[c.Layer].Attention += c.FLOPs()
				if attention.Causal {
					d.Layers[c.Layer].Masked += c.FLOPs() / 2
				}
			}
		}
	}
	for i, l := range p.Layers {
		d.Layers[i].FLOPs /= int64(examples)
		d.Layers[i].Attention /= int64(examples)
		d.Layers[i].Masked /= int64(examples)
		d.Layers[i].cost = float64(d.Layers[i].FLOPs)
		if c, ok := l.(nn.Coster); ok {
			d.Layers[i].cost = c.Cost()
		}
	}
	if !compiled {
		return d, nil
	}
	var gradOut []bool
	if p.Loss == nil {
		gradOut = make([]bool, len(st.Function.Out))
		for i, n := range st.Function.Out {
			gradOut[i] = n.DType != graph.I32
		}
	}
	for layer, floats := range program.Compile(st.Function, gradOut, false, 1, program.Of(p.DType)).Saved {
		if layer < len(d.Layers) {
			d.Layers[layer].SavedBytes += int64(floats) * FloatBytes / int64(examples)
		}
	}
	return d, nil
}

// Fingerprint is gpipe.Pipeline.Fingerprint.
func (p Config) Fingerprint(in Input) (sha256 string, err error) {
	defer Misfit(&err)
	return trace.Fingerprint(p.Layers, BatchOf(in.Inputs, 1)), nil
}
