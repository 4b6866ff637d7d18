package gpipe

import (
	"context"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/trace"
	"gpipebench/train"
)

// sentBytes is what all devices receive from each other for an update, in float32, by kind.
type sentBytes struct {
	Boundary int64 `json:"boundary"` // activations between stages, and their gradients
	Reduced  int64 `json:"reduced"`  // sums of what each part of an operation has a summand of
	Gathered int64 `json:"gathered"` // what one part has and all others get
	Halo     int64 `json:"halo"`     // of images: rows of neighbours, and what one part does for all
	Weights  int64 `json:"weights"`  // sums of weights' gradients
	Messages int64 `json:"messages"` // but of images
	// MACs are multiply-adds of a forward function, and Ruled those that have a rule by which T devices divide
	// them: products by columns and rows, attention by heads, convolutions by channels, but no layer with a scan.
	MACs  int64 `json:"macs"`
	Ruled int64 `json:"ruled"`
	// Divided is the share of multiply-adds that eight parts divide as they run here.
	Divided float64 `json:"divided"`
}

// traffic is what the plan of a step says. Images in parts are counted by their model, and operations that run in no
// parts here by the rule.
func (n heldNetwork) traffic(ctx context.Context, w way6) (sent sentBytes, err error) {
	in := n.Model.Input(n.batch(w))
	calls, err := traced(n.Model, in)
	if err != nil {
		return sent, err
	}
	sent.count(calls)
	runs := n.Model.Name != train.AmoebaNet // in parts of operations
	if w.Base == "" && runs {
		p, err := n.planned(ctx, way6{T: 8}, n.Model.Input(1))
		if err != nil {
			return sent, err
		}
		p.Blocks = 1
		if sent.Divided, err = p.DividedShare(n.Model.Input(1)); err != nil {
			return sent, err
		}
	}
	switch {
	case w.S > 1:
		s := w.step(n, 1, "never", false)
		s.Setup.Spatial = 1
		p, err := s.Pipeline(ctx, in)
		if err != nil {
			return sent, err
		}
		of, err := p.ModelSpatial(in, w.S, s.Modelling())
		sent.Halo, sent.Weights = of.Copied, 2*int64(w.S-1)*of.Summed
		return sent, err
	case w.T > 1 && !runs:
		sent.byChannels(calls, w.T)
		return sent, nil
	}
	p, err := n.planned(ctx, w, in)
	if err != nil {
		return sent, err
	}
	all, err := p.PlannedTraffic(in)
	for _, of := range all {
		sent.add(of)
	}
	return sent, err
}

// planned is the network on a way's K devices or T parts, with as many blocks, so that sums are all-reduces, and
// nothing is recomputed. What is sent does not depend on the schedule.
func (n heldNetwork) planned(ctx context.Context, w way6, in gpipe.Input) (p gpipe.Pipeline, err error) {
	layers, err := n.Model.Build()
	if err != nil {
		return p, err
	}
	loss, err := n.Model.Loss(0)
	if err != nil {
		return p, err
	}
	micro := 1
	if len(w.M) > 0 {
		micro = w.M[len(w.M)-1]
	}
	s := train.Setup{Partitions: max(w.K, 1), MicroBatches: micro, Tensor: w.T, Blocks: w.T, Checkpoint: schedule.Never, Partitioner: partition.MinMax}
	return s.Pipeline(ctx, layers, loss, in)
}

// add adds what places send each other of one kind.
func (s *sentBytes) add(of gpipe.Traffic) {
	s.Messages += of.Messages
	switch of.What {
	case gpipe.PartReduces:
		s.Reduced += of.Bytes
	case gpipe.PartEdges, gpipe.PartGathers:
		s.Gathered += of.Bytes
	default: // between stages
		s.Boundary += of.Bytes
	}
}

// count counts multiply-adds of the whole network.
func (s *sentBytes) count(calls []*graph.Call) {
	scans := map[int]bool{}
	for _, c := range calls {
		_, is := c.Op.(op.LSTM)
		scans[c.Layer] = scans[c.Layer] || is
	}
	for _, c := range calls {
		macs := multiplyAdds(c)
		if s.MACs += macs; !scans[c.Layer] {
			s.Ruled += macs
		}
	}
}

// byChannels counts by the rule by which parts run ResNet (nn/program/tensorconv.go), of networks whose convolutions all
// have channels for every part. What convolutions read is gathered forward, and for their weights' gradients once
// more; its gradient is added up for each of them. Images are one part's, and have no gradient. The inputs of a
// product are divided, and its results are added up. Batch norm's moments are gathered for the averages, and its
// sums for the gradients of gain and bias.
func (s *sentBytes) byChannels(calls []*graph.Call, parts int) {
	all := int64(parts)
	send := func(to *int64, times, from int64, elements int) {
		*to += times * (all - 1) * plan.FloatBytes * int64(elements)
		s.Messages += times * (all - 1) * from
	}
	read := map[*graph.Node]bool{}
	for _, c := range calls {
		switch c.Op.(type) {
		case op.Conv2D:
			x, from := c.In[0], all
			if x.Call == nil {
				from = 1
			} else {
				send(&s.Reduced, 1, from, x.Elems())
			}
			if !read[x] {
				send(&s.Gathered, 2, from, x.Elems())
			}
			read[x] = true
		case op.MatMul:
			send(&s.Reduced, 2, all, c.Out[0].Elems())
		case op.BatchNormMoments:
			moments := c.Out[0].Shape
			send(&s.Gathered, 1, all, moments.Elems())
			send(&s.Gathered, 1, all, 2*moments.Last())
		}
	}
}

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

// section6Traffic counts.
var section6Traffic = section6Kind(heldNetwork.traffic, false)
