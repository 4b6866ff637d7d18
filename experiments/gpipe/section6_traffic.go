package gpipe

import (
	"context"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/plan"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/trace"
	"gpipebench/train"
)

// sentBytes is what all devices receive from each other for an update, in float32, by kind. Sums go around a
// ring: each of T devices sends a T-th 2(T-1) times, gathers half as often.
type sentBytes struct {
	Boundary int64 `json:"boundary"` // activations between stages, and their gradients
	Reduced  int64 `json:"reduced"`  // all-reduces of activations and their gradients
	Gathered int64 `json:"gathered"` // all-gathers of convolutions' inputs, and sums of their gradients, a part for each device; a softmax's three numbers a token
	Halo     int64 `json:"halo"`     // of images: rows of neighbours, and what one part does for all
	Weights  int64 `json:"weights"`  // sums of weights' gradients
	// MACs are multiply-adds of a forward function, and Ruled those that have a rule by which T devices divide
	// them: products by columns and rows, attention by heads, convolutions by channels, but no layer with a scan.
	MACs  int64 `json:"macs"`
	Ruled int64 `json:"ruled"`
}

func (n heldNetwork) traffic(ctx context.Context, w way6) (sent sentBytes, err error) {
	in := n.Model.Input(n.batch(w))
	if err := sent.count(n.Model, in, max(w.T, 1)); err != nil {
		return sent, err
	}
	if w.S > 1 {
		s := w.step(n, 1, "never", false)
		s.Setup.Spatial = 1
		p, err := s.Pipeline(ctx, in)
		if err != nil {
			return sent, err
		}
		of, err := p.ModelSpatial(in, w.S, s.Modelling())
		sent.Halo, sent.Weights = of.Copied, 2*int64(w.S-1)*of.Summed
		return sent, err
	}
	if w.K > 1 {
		out, _, err := timed.HandedOn(n.Model)
		if err != nil {
			return sent, err
		}
		costs, err := train.FlopsOf(n.Model)
		if err != nil {
			return sent, err
		}
		cut, err := partition.Split(partition.MinMax, costs, w.K)
		if err != nil {
			return sent, err
		}
		last := -1
		for _, layers := range cut.Sizes[:w.K-1] {
			last += layers
			sent.Boundary += 2 * out[last] * int64(n.batch(w))
		}
	}
	return sent, nil
}

// count counts multiply-adds of the whole network, and what its T parts send.
func (s *sentBytes) count(m train.Model, in gpipe.Input, parts int) error {
	whole, err := traced(m, in)
	if err != nil {
		return err
	}
	scans := map[int]bool{}
	for _, c := range whole {
		_, is := c.Op.(op.LSTM)
		scans[c.Layer] = scans[c.Layer] || is
	}
	for _, c := range whole {
		macs := multiplyAdds(c)
		if s.MACs += macs; !scans[c.Layer] {
			s.Ruled += macs
		}
		if _, is := c.Op.(op.Conv2D); is && parts > 1 {
			s.Gathered += ring(parts, c.In[0].Elems()) // its gradient is summed to the part that has it
		}
	}
	if m.Images() || parts == 1 {
		return nil
	}
	m.Parts = nn.Parts{Count: parts}
	divided, err := traced(m, in)
	for _, c := range divided {
		switch o := c.Op.(type) {
		case op.Leave:
			s.Reduced += ring(parts, c.Out[0].Elems())
		case op.Enter: // in its gradient
			s.Reduced += ring(parts, c.In[0].Elems())
			s.Gathered += ring(parts, o.Rows*c.In[0].Shape.Rows())
		}
	}
	return err
}

// ring is what parts receive together when they sum elements around a ring, or gather them and, in the backward, sum
// their gradients.
func ring(parts, elements int) int64 { return 2 * int64(parts-1) * plan.FloatBytes * int64(elements) }

// traced are the calls of a network's forward function.
func traced(m train.Model, in gpipe.Input) (calls []*graph.Call, err error) {
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	defer plan.Misfit(&err)
	of := trace.Layers(layers, 0, nil, plan.BatchOf(in.Inputs, in.Examples), nil, true)
	return slices.Clone(of.Function.Graph.Calls), nil
}

// multiplyAdds of a product, a convolution, attention, whose scores count in full, or a scan.
func multiplyAdds(c *graph.Call) int64 {
	switch o := c.Op.(type) {
	case op.MatMul:
		m, n, k := o.Dims(c.In[0].Shape, c.In[1].Shape)
		return int64(m) * int64(n) * int64(k)
	case op.Conv2D:
		w := c.In[1].Shape
		return int64(c.Out[0].Elems()) * int64(w[0]*w[1]*w[2])
	case op.Attention:
		keys := c.In[0].Shape[1]
		if o.Cross {
			keys = c.In[1].Shape[1]
		}
		return 2 * int64(c.Out[1].Elems()) * int64(keys) * int64(o.HeadDim)
	case op.LSTM:
		examples, time, width, hidden := o.Dims(c.In[0].Shape, c.In[o.Weight()].Shape)
		return int64(examples*time) * int64(4*hidden) * int64(width+hidden)
	}
	return 0
}

// section6Traffic counts. Of convolutions that T devices divide ResNet's run here, and send more than is counted.
var section6Traffic = section6Kind(heldNetwork.traffic, false)
