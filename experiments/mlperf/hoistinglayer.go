package mlperf

import (
	"context"
	"time"

	"gpipebench/gpipe/accelerator"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// recurrentLayer is a recurrent layer with as many inputs as units, and how many examples it gets.
type recurrentLayer struct {
	Width, Steps, Batch int
	Inside              bool
}

// compile compiles the layer's forward function, which keeps residuals, and its backward
// function, for one thread.
func (l recurrentLayer) compile(s program.Storage) *program.Stage {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, l.Batch, l.Steps, l.Width)
	wx := g.NewNode(graph.Param, "wx", graph.F32, l.Width, 4*l.Width)
	bias := g.NewNode(graph.Param, "bias", graph.F32, 4*l.Width)
	w := g.NewNode(graph.Param, "w", graph.F32, l.Width, 4*l.Width)
	var y *graph.Node
	if l.Inside {
		y = g.LSTMInside(x, wx, bias, w, nil, false)
	} else {
		y = g.LSTM(g.AddBias(g.MatMul(x, wx), bias), w, nil, false)
	}
	f := program.Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}, Params: []*graph.Node{wx, bias, w}}
	return program.CompileStored(f, []bool{true}, true, 1, s)
}

// on is the layer's step on an accelerator, in seconds.
func (l recurrentLayer) on(a *accelerator.Accelerator, dtype graph.DType, packing bool) float64 {
	s := l.compile(program.Storage{DType: dtype, NoPacking: !packing})
	return a.Seconds(s.Keep, dtype) + a.Seconds(s.Backward, dtype)
}

// runningLayer is a layer with memory.
type runningLayer struct {
	recurrentLayer
	stage  *program.Stage
	memory program.Binding
	pool   *program.Pool
	env    program.Env
}

func (l recurrentLayer) open(pool *program.Pool) *runningLayer {
	r := &runningLayer{recurrentLayer: l, stage: l.compile(program.Storage{}), pool: pool, env: program.Env{Step: 1, LossScale: 1}}
	for s := range r.memory {
		r.memory[s] = make([]float32, r.stage.Span[s])
	}
	// Small numbers of both signs: time does not depend on them unless they are subnormal.
	for _, s := range []program.Space{program.Params, program.In, program.DOut} {
		for i := range r.memory[s] {
			r.memory[s][i] = (float32(i%13) - 6) / 64
		}
	}
	return r
}

// step runs both passes. Ran, if it is not nil, gets each instruction with its seconds.
func (r *runningLayer) step(ctx context.Context, ran func(in *program.Instr, seconds float64)) (seconds float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := time.Now()
	var o program.Options
	if ran != nil {
		last := start
		o.Ran = func(in *program.Instr) {
			now := time.Now()
			ran(in, now.Sub(last).Seconds())
			last = time.Now()
		}
	}
	for _, p := range passesOf(r.stage) {
		if err := p.Run(r.pool, &r.memory, &r.env, o); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

func passesOf(s *program.Stage) []*program.Program { return []*program.Program{s.Keep, s.Backward} }

// layerInstructions are those of a step, in their order.
func layerInstructions(s *program.Stage) (all []*program.Instr) {
	for _, p := range passesOf(s) {
		for i := range p.Instrs {
			all = append(all, &p.Instrs[i])
		}
	}
	return all
}
