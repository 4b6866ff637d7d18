package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
)

// timeLayers measures what a layer costs a pipeline with re-materialisation:
// its forward, the forward again that keeps the residuals, and its backward,
// on a micro-batch of the pipeline's largest size, by itself and with the
// threads of the first device. Each layer is run once to warm up and then seven
// times, in turn with the others so that a disturbance hits no layer alone; its
// cost is the least in seconds, since what disturbs a layer only adds to it: on a
// busy machine the median of five moved cuts by many layers. The loss is part of
// the last layer's cost, as it is part of the last stage.
//
// Every layer runs on what the layer before it makes of token 0 (or of ones).
// The network's parameters are in memory once while this runs.
func timeLayers(ctx context.Context, p gpipe.Pipeline, in gpipe.Input) ([]float64, error) {
	// No garbage while the clock runs, as on emulated devices.
	defer gpipe.PauseCollector()()
	size := gpipe.MicroBatchSizes(in.Examples, p.MicroBatches)[0]
	threads := max(p.Devices[0].Threads, 1)
	pool := program.NewPool(threads)
	defer pool.Close()

	var layers []*timedLayer
	types := batchOf(in.Inputs, size)
	var previous *timedLayer
	for i := range p.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var l nn.Loss
		var targets []graph.Type
		if i == len(p.Layers)-1 {
			l, targets = p.Loss, batchOf(in.Targets, size)
		}
		t, out, err := fittingLayer(p.Layers[i], i, l, types, targets, p.Seed, threads)
		if err != nil {
			return nil, fmt.Errorf("timing layer %s on a micro-batch of %d: %w", p.Layers[i].Name(), size, err)
		}
		if previous != nil {
			copy(t.memory[program.In], previous.memory[program.Out])
		}
		if _, err := t.run(pool, size); err != nil {
			return nil, fmt.Errorf("timing layer %s: %w", p.Layers[i].Name(), err)
		}
		layers = append(layers, t)
		previous, types = t, out
	}
	seconds := make([][]float64, len(layers))
	for range 7 {
		for i, t := range layers {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s, err := t.run(pool, size)
			if err != nil {
				return nil, fmt.Errorf("timing layer %s: %w", p.Layers[i].Name(), err)
			}
			seconds[i] = append(seconds[i], s)
		}
	}
	costs := make([]float64, len(layers))
	for i, s := range seconds {
		costs[i] = slices.Min(s)
	}
	return costs, nil
}

// timedLayer is one layer compiled as if it were a stage, and its memory.
type timedLayer struct {
	stage  *program.Stage
	memory program.Binding
}

// fittingLayer is newTimedLayer, with an error where the layer does not fit what
// comes in, as a batch norm and a single value.
func fittingLayer(layer nn.Layer, index int, l nn.Loss, in, targets []graph.Type, seed uint64, threads int) (t *timedLayer, out []graph.Type, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &gpipe.MisfitError{Reason: v}
		}
	}()
	t, out = newTimedLayer(layer, index, l, in, targets, seed, threads)
	return t, out, nil
}

func newTimedLayer(layer nn.Layer, index int, l nn.Loss, in, targets []graph.Type, seed uint64, threads int) (*timedLayer, []graph.Type) {
	traced := nn.TraceStage([]nn.Layer{layer}, index, l, in, targets, true)
	gradOut := make([]bool, len(traced.Out))
	for i, t := range traced.Out {
		gradOut[i] = l == nil && t.DType != graph.I32
	}
	t := &timedLayer{stage: program.Compile(traced.Function, gradOut, index > 0, threads)}
	for s, span := range t.stage.Span {
		t.memory[s] = make([]float32, span)
	}
	for i, p := range traced.Params {
		o := t.stage.Params[i]
		p.Init(philox.NewStream(philox.KeyOf(seed, layer.Name()+"/"+p.Name), 0), p.Shape, t.memory[program.Params][o.Off:o.End()])
	}
	// Any gradient will do, but denormal numbers would not.
	for i := range t.memory[program.DOut] {
		t.memory[program.DOut][i] = 1
	}
	return t, traced.Out
}

// run runs the layer's three programs once and tells how long they took.
func (t *timedLayer) run(pool *program.Pool, examples int) (float64, error) {
	env := program.Env{Step: 1, LossScale: 1 / float32(examples)}
	start := time.Now()
	for _, p := range []*program.Program{t.stage.Forward, t.stage.Keep, t.stage.Backward} {
		if err := p.Run(pool, &t.memory, &env, program.Options{}); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

// batchOf gives types of single examples their leading dimension.
func batchOf(types []graph.Type, n int) []graph.Type {
	out := make([]graph.Type, len(types))
	for i, t := range types {
		out[i] = graph.Type{Shape: append(graph.Shape{n}, t.Shape...), DType: t.DType}
	}
	return out
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	mid := len(xs) / 2
	if len(xs)%2 == 1 {
		return xs[mid]
	}
	return (xs[mid-1] + xs[mid]) / 2
}
