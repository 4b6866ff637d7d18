package gpipe

import (
	"strings"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// layerCost is what a layer takes and keeps of one micro-batch. Bytes are as stored.
type layerCost struct {
	forward, backward accelerator.Timing // without what is computed again
	input, weights    accelerator.Timing // the parts of backward, of split schedules
	again, scores     accelerator.Timing // the forward again, and the core of attention
	in, out           int64              // what crosses its edges
	kept              int64              // residuals, without in
	lasting, between  int64              // the part of kept that W reads, and what I keeps for W
	workspace         int64
	scored            int64 // the scores of attention, where they are in memory and not kept
}

// Costs keeps what layers cost, for other simulations of the same layers on the same devices that
// differ in the pipeline, replicas, ZeRO and recomputation. One is for one goroutine.
type Costs struct{ known map[costKey][]*layerCost }

// costKey is what costs depend on.
type costKey struct {
	first         nn.Layer
	micro         int
	splits, keeps bool
}

// cost sets the layers' costs.
func (c *clusterStep) cost(in Input) error {
	keeps := c.Attention == UnfusedAttention && c.Recompute != RecomputeSelective || c.how.KeepScores
	key := costKey{c.Layers[0], c.micro, c.splits, keeps}
	if of := c.how.Costs; of != nil && of.known[key] != nil {
		c.layers = of.known[key]
		return nil
	}
	if err := c.compile(in, key); err != nil || c.how.Costs == nil {
		return err
	}
	if c.how.Costs.known == nil {
		c.how.Costs.known = map[costKey][]*layerCost{}
	}
	c.how.Costs.known[key] = c.layers
	return nil
}

// compile traces every layer and compiles each distinct one.
func (c *clusterStep) compile(in Input, of costKey) (err error) {
	defer plan.Misfit(&err)
	storage := program.Storage{
		DType: c.how.DType, NoPacking: !c.a.Packing, KeepScores: of.keeps, DropScores: c.DropScores,
		Weights: c.weightBytes(), Gradients: c.summedBytes(),
	}
	seen := map[string]*layerCost{}
	flow := plan.BatchOf(in.Inputs, c.micro)
	last := len(c.Layers) - 1
	for i := range c.Layers {
		var loss nn.Loss
		var targets []graph.Type
		if i == last {
			loss, targets = c.Loss, plan.BatchOf(in.Targets, c.micro)
		}
		traced := trace.Layers(c.Layers[i:i+1], i, loss, flow, targets, true)
		flow = traced.Out
		key := computes(traced, i > 0, loss)
		if seen[key] == nil {
			traced.Function.Split = of.splits
			seen[key] = c.layer(traced, i, storage)
		}
		c.layers = append(c.layers, seen[key])
	}
	return nil
}

// layer compiles layer i of the network.
func (c *clusterStep) layer(traced *trace.Stage, i int, storage program.Storage) *layerCost {
	var gradOut []bool
	if i < len(c.Layers)-1 {
		for _, t := range traced.Out {
			gradOut = append(gradOut, t.DType != graph.I32)
		}
	}
	st := program.Compile(traced.Function, gradOut, i > 0, 1, storage)
	time := func(p *program.Program) (t accelerator.Timing) {
		c.a.Timings(p, c.how.DType, func(_ int, of accelerator.Timing) { t.Add(of) })
		return t
	}
	bytes := func(s program.Space) int64 { return plan.FloatBytes * int64(st.Span[s]) }
	l := &layerCost{
		forward: time(st.Forward), backward: time(st.Backward), again: time(st.Keep.Again()),
		in: bytes(program.In), out: bytes(program.Out),
		kept: bytes(program.Residual) + bytes(program.Lasting) + masks(st.Keep), lasting: bytes(program.Lasting), between: bytes(program.Between),
		workspace: bytes(program.Workspace),
	}
	if c.Attention == UnfusedAttention && !storage.KeepScores {
		l.scored = scored(st.Keep, c.how.DType.Bytes(), c.DropScores)
	}
	l.scores = accelerator.Timing{Operations: l.again.Scores, Scores: l.again.Scores}
	if st.Input != nil {
		l.input, l.weights = time(st.Input), time(st.Weights)
	}
	if i == len(c.Layers)-1 {
		l.out = 0
	}
	return l
}

// scored are the bytes of all scores of attention, with those after a dropout and its mask.
func scored(p *program.Program, each int64, dropped bool) (bytes int64) {
	for i := range p.Instrs {
		if in := &p.Instrs[i]; in.Op == "attention" {
			d := in.Dims()
			scores := int64(d.Count) * int64(d.M) * int64(d.N)
			if bytes += scores * each; dropped {
				bytes += scores * (each + 1)
			}
		}
	}
	return bytes
}

// masks are what frameworks keep of dropouts: a byte for each element.
func masks(p *program.Program) (bytes int64) {
	for i := range p.Instrs {
		if strings.HasPrefix(p.Instrs[i].Op, "dropout") {
			for m := range p.Instrs[i].Moves() {
				if m.Written {
					bytes += m.Elems
				}
			}
		}
	}
	return bytes
}

// recomputed is what the backward of layer i computes again.
func (c *clusterStep) recomputed(i int) accelerator.Timing {
	switch {
	case c.Recompute == RecomputeFull && 0 < i && i < len(c.layers)-1:
		return c.layers[i].again
	case c.Recompute == RecomputeSelective:
		return c.layers[i].scores
	}
	return accelerator.Timing{}
}

// keeps is what a micro-batch holds of layer i from its F to its B, in bytes.
func (c *clusterStep) keeps(i int) int64 {
	if c.Recompute == RecomputeFull && 0 < i && i < len(c.layers)-1 {
		return c.layers[i].in
	}
	return c.layers[i].in + c.layers[i].kept
}

// estimates are the layers' costs to cut by. What GPipe's recomputation of stages does in tasks of
// its own is in the backward otherwise.
func (c *clusterStep) estimates() []LayerEstimate {
	all := make([]LayerEstimate, len(c.layers))
	for i, l := range c.layers {
		of := layerTimings{forward: l.forward, backward: l.backward, input: l.input, weights: l.weights}
		of.backward.Add(c.recomputed(i))
		if c.splits {
			of.input.Add(c.recomputed(i))
		}
		if c.Recompute == RecomputeStage && c.Checkpoint != schedule.Never {
			of.recompute = l.again
		}
		all[i] = of.estimate(c.keeps(i))
	}
	return all
}
