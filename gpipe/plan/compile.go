package plan

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// variant is what programs are compiled for: a purpose, the shapes of an
// example and the size of a micro-batch.
type variant struct {
	purpose Purpose
	shapes  string
	size    int
	largest int // size of the largest micro-batch that the replica's memory is planned for
}

// Compiled is the pieces' programs for one micro-batch size.
type Compiled []*program.Stage

// traceStages traces all stages for a micro-batch of the given size.
func traceStages(n *Network, in Input, size int, what Purpose) []*trace.Stage {
	traced := make([]*trace.Stage, n.Pieces.Len())
	wide := n.wide() && what == Training
	flow := BatchOf(in.Inputs, size)
	for k := range traced {
		var loss nn.Loss
		var targets []graph.Type
		if k == len(traced)-1 && what != Predicting {
			loss, targets = n.Loss, BatchOf(in.Targets, size)
		}
		traced[k] = trace.Into(&graph.Graph{OverReplicas: wide}, n.stageLayers(k), n.First[k], loss, flow, targets, what == Training)
		flow = traced[k].Out
	}
	return traced
}

// programs compiles the network, once, for examples of in's shapes and a micro-batch
// size, neither larger than what is planned for the purpose: for replicas whose memory
// is planned for micro-batches of at most the size largest.
func (n *Network) programs(in Input, size int, what Purpose, largest int) (c Compiled, err error) {
	v := variantOf(in, size, what, largest)
	if c, ok := n.compiled[v]; ok {
		return c, nil
	}
	defer Misfit(&err)
	traced := traceStages(n, in, size, what)
	if err := countable(n.Layers, n.storage, traced, (in.Examples+size-1)/size); err != nil {
		return nil, err
	}
	c = n.compile(traced, what, nil)
	if !n.plans(v) {
		room, err := n.programs(n.largestInput(what), largest, what, largest)
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(c, room, (*program.Stage).Fits) {
			traced = traceStages(n, in, size, what)
			for k := range traced {
				traced[k].Function.Room = room[k]
			}
			c = n.compile(traced, what, room)
		}
	}
	n.compiled[v] = c
	return c, nil
}

func variantOf(in Input, size int, what Purpose, largest int) variant {
	return variant{what, fmt.Sprint(in.Inputs, in.Targets), size, largest}
}

// plans reports whether the memory of the variant's replicas is planned for the variant
// itself, not for a larger one.
func (n *Network) plans(v variant) bool {
	in := n.largestInput(v.purpose)
	return v == variantOf(in, v.size, v.purpose, v.largest) && slices.ContainsFunc(n.Divide(in.Examples, v.purpose), func(s Portion) bool {
		return s.largest() == v.largest && slices.Contains(s.Sizes, v.size)
	})
}

// compile compiles the stages, and divides them. If room is not nil, parts' programs take no
// more than their counterparts there.
func (n *Network) compile(traced []*trace.Stage, what Purpose, room Compiled) (c Compiled) {
	if what == Training {
		c = compileTraining(n, traced)
	} else {
		for k, tr := range traced {
			c = append(c, program.CompileEvaluate(tr.Function, n.Devices[n.Device(k)].Workers(), n.storage))
		}
	}
	if n.Params == nil {
		listParams(n, traced, c)
	}
	for k := range c {
		var within *program.Stage
		if room != nil {
			within = room[k]
		}
		if n.Divides() {
			c[k] = c[k].Split(n.Tensor, n.Blocks, within)
		}
		if n.Spatial > 1 {
			var err error
			if c[k], err = c[k].Divide(n.Spatial, within); err != nil {
				panic(fmt.Sprint("gpipe: what Validate accepts: ", err))
			}
		}
	}
	return c
}

// compileTraining compiles the stages for training.
func compileTraining(n *Network, traced []*trace.Stage) Compiled {
	lists, err := n.taskLists(&n.Divide(n.Input.Examples, Training)[0])
	splits := err == nil && schedule.Splits(lists)
	chain, threads := make([]program.Function, len(traced)), make([]int, len(traced))
	for k, t := range traced {
		t.Function.Split = splits
		chain[k], threads[k] = t.Function, n.Devices[n.Device(k)].Workers()
	}
	return program.CompileChain(chain, threads, n.storage)
}

// listParams finds every parameter's uses over all stages. If nothing is trained, a
// stage that has a parameter counts as a use.
func listParams(n *Network, traced []*trace.Stage, stages Compiled) {
	index := map[*nn.Param]int{}
	n.Paths = map[*nn.Param]string{}
	eachParam(n.Layers, func(layer int, p *nn.Param) {
		path := nn.ScopeOf(n.Layers[layer]) + "/" + p.Name
		n.Paths[p] = path
		if !p.Frozen {
			index[p] = len(n.Params)
			n.Params = append(n.Params, Parameter{Param: p, Path: path, Rate: n.rate(path)})
		}
	})
	for k, st := range stages {
		n.Moving = append(n.Moving, traced[k].Moving)
		uses := st.Uses
		if !n.Trains() {
			for i, p := range traced[k].Params {
				if !p.Frozen {
					uses = append(uses, program.Use{Param: i})
				}
			}
		}
		for i, u := range uses {
			p := &n.Params[index[traced[k].Params[u.Param]]]
			p.Uses = append(p.Uses, Use{Stage: k, Index: i, Sparse: u.Rows > 0, Scale: u.Scale})
		}
	}
	_, layerWise := n.Optimizer.(nn.LayerWise)
	for i := range n.Params {
		p := &n.Params[i]
		p.Adapts, p.Cells, p.Blocks = layerWise && !p.NoDecay && p.Rate > 0, 0, n.cells(p.Param)
		for _, cells := range p.Blocks {
			p.Cells += cells
		}
		if len(p.Uses) == 0 {
			graph.Refuse("gpipe", "parameter %s gets no gradient: its layer lists it and does not use it, or an operation after it has no gradient", p.Path)
		}
	}
}

// ProgramsFor returns the programs for a micro-batch of the planned shapes and the given
// size, which have been compiled.
func (n *Network) ProgramsFor(size int, what Purpose) Compiled {
	c, err := n.programs(n.largestInput(what), size, what, n.largestMicro(what))
	if err != nil {
		panic(err)
	}
	return c
}

// Largest is the programs of piece k for the largest micro-batch: those of
// training, if there is any.
func (n *Network) Largest(k int) *program.Stage {
	for what := Training; what <= Predicting; what++ {
		if in := n.largestInput(what); in.Examples > 0 {
			return n.ProgramsFor(n.largestMicro(what), what)[k]
		}
	}
	panic("gpipe: a network without a purpose")
}

// BoundaryBytes is the number of bytes that a piece sends forward for one micro-batch.
func (c Compiled) BoundaryBytes(stage int) int64 {
	if stage == len(c)-1 {
		return 0
	}
	return tensorBytes(c[stage].Out)
}

// tensorBytes is the size of tensors that cross a boundary.
func tensorBytes(ts []program.Tensor) (n int64) {
	for _, t := range ts {
		n += int64(t.Len) * FloatBytes
	}
	return n
}

// ProgramOf is the program that a task runs.
func ProgramOf(st *program.Stage, t schedule.Task) *program.Program {
	switch {
	case t.Kind == schedule.Backward:
		return st.Backward
	case t.Kind == schedule.BackwardInput:
		return st.Input
	case t.Kind == schedule.BackwardWeights:
		return st.Weights
	case t.Kind == schedule.Recompute:
		return st.Keep.Again()
	case t.Keep:
		return st.Keep
	}
	return st.Forward
}

// PredictionOffset is the offset of the last stage's predictions in its workspace:
// after everything else there.
func PredictionOffset(st *program.Stage) int { return program.AlignUp(st.Forward.Span) }
