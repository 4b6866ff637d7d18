package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/experiments/machine"
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
// Layers that compute the same on the same shapes are timed as one, the first of
// them: ten thousand equal layers take as long and as much memory as one does.
// Every layer runs on what the layer before it makes of token 0 (or of ones). The
// parameters of all that is timed are in memory once while this runs.
func timeLayers(ctx context.Context, p gpipe.Pipeline, in gpipe.Input) ([]float64, error) {
	// No garbage while the clock runs, as on emulated devices.
	defer gpipe.PauseCollector()()
	size := gpipe.MicroBatchSizes(in.Examples, p.MicroBatches)[0]
	threads := max(p.Devices[0].Threads, 1)
	pool := program.NewPool(threads)
	defer pool.Close()

	layers, timed, err := distinctLayers(ctx, p, in, size, threads)
	if err != nil {
		return nil, err
	}
	for _, t := range layers {
		t.allocate(p.Seed)
		if t.after != nil {
			copy(t.memory[program.In], t.after.memory[program.Out])
		}
		if _, err := t.run(pool, size); err != nil {
			return nil, fmt.Errorf("timing layer %s: %w", t.layer.Name(), err)
		}
	}
	seconds := make([][]float64, len(layers))
	for range 7 {
		for i, t := range layers {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s, err := t.run(pool, size)
			if err != nil {
				return nil, fmt.Errorf("timing layer %s: %w", t.layer.Name(), err)
			}
			seconds[i] = append(seconds[i], s)
		}
	}
	costs := make([]float64, len(timed))
	for i, n := range timed {
		costs[i] = slices.Min(seconds[n])
	}
	return costs, nil
}

// distinctLayers compiles the layers that compute something that no layer before
// them does, and tells for each of the network's which of those it is.
func distinctLayers(ctx context.Context, p gpipe.Pipeline, in gpipe.Input, size, threads int) (layers []*timedLayer, of []int, err error) {
	known := map[string]int{}
	var bytes float64
	var previous *timedLayer
	types := BatchOf(in.Inputs, size)
	for i, layer := range p.Layers {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		var l nn.Loss
		var targets []graph.Type
		if i == len(p.Layers)-1 {
			l, targets = p.Loss, BatchOf(in.Targets, size)
		}
		traced, err := tracedLayer(layer, i, l, types, targets)
		if err != nil {
			return nil, nil, fmt.Errorf("timing layer %s on a micro-batch of %d: %w", layer.Name(), size, err)
		}
		same := computes(traced, i > 0, l)
		n, ok := known[same]
		if !ok {
			t := compiledLayer(layer, traced, i, l, threads)
			t.after = previous
			for _, span := range t.stage.Span {
				bytes += 4 * float64(span)
			}
			n = len(layers)
			layers, known[same] = append(layers, t), n
		}
		of, previous, types = append(of, n), layers[n], traced.Out
	}
	if has := float64(machine.Memory()); bytes > has {
		return nil, nil, fmt.Errorf("the layers to be timed take %.0f bytes of memory, and this machine has %.0f: want a smaller network or micro-batch, or cuts by another cost than time", bytes, has)
	}
	return layers, of, nil
}

// timedLayer is one layer compiled as if it were a stage, and its memory.
type timedLayer struct {
	layer  nn.Layer
	after  *timedLayer // what it gets is what that makes; nil: token 0
	params []*nn.Param
	stage  *program.Stage
	memory program.Binding
}

// tracedLayer traces a layer by itself, with an error where it does not fit what
// comes in, as a batch norm and a single value.
func tracedLayer(layer nn.Layer, index int, l nn.Loss, in, targets []graph.Type) (st *nn.Stage, err error) {
	defer gpipe.Misfit(&err)
	return nn.TraceStage([]nn.Layer{layer}, index, l, in, targets, true), nil
}

// computes is the same text for layers that compute the same on the same shapes,
// whatever their names, parameters and random numbers are.
func computes(st *nn.Stage, gradIn bool, l nn.Loss) string {
	var b strings.Builder
	fmt.Fprint(&b, gradIn, l != nil)
	nodes := func(ns []*graph.Node) {
		for _, n := range ns {
			fmt.Fprint(&b, " ", n.ID, n.Role, n.DType, n.Shape)
		}
		b.WriteByte(';')
	}
	f := st.Function
	for _, ns := range [][]*graph.Node{f.Params, f.In, f.Feeds, f.Out, f.Tallies} {
		nodes(ns)
	}
	for _, c := range f.Graph.Calls {
		op := c.Op
		switch random := op.(type) { // which has a path of its own
		case graph.DropoutOp:
			random.Path = ""
			op = random
		case graph.DropPathOp:
			random.Path = ""
			op = random
		}
		fmt.Fprintf(&b, "%T%v", op, op)
		nodes(c.In)
		nodes(c.Out)
	}
	return b.String()
}

// compiledLayer has no memory yet.
func compiledLayer(layer nn.Layer, traced *nn.Stage, index int, l nn.Loss, threads int) *timedLayer {
	gradOut := make([]bool, len(traced.Out))
	for i, t := range traced.Out {
		gradOut[i] = l == nil && t.DType != graph.I32
	}
	return &timedLayer{layer: layer, params: traced.Params, stage: program.Compile(traced.Function, gradOut, index > 0, threads)}
}

// allocate gives a compiled layer its memory, with parameters as a seed makes them.
func (t *timedLayer) allocate(seed uint64) {
	for s, span := range t.stage.Span {
		t.memory[s] = make([]float32, span)
	}
	for i, p := range t.params {
		o := t.stage.Params[i]
		p.Init(philox.NewStream(philox.KeyOf(seed, t.layer.Name()+"/"+p.Name), 0), p.Shape, t.memory[program.Params][o.Off:o.End()])
	}
	// Any gradient will do, but denormal numbers would not.
	for i := range t.memory[program.DOut] {
		t.memory[program.DOut][i] = 1
	}
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

// CoreRate is the rate that one core reaches in a product of 512 x 512 matrices, in
// FLOP/s: the best of some, as a peak is.
func CoreRate(ctx context.Context) (float64, error) {
	const n, times = 512, 40
	pool := program.NewPool(1)
	defer pool.Close()
	dense := nn.NewDense("product", nn.DenseConfig{In: n, Out: n, NoBias: true})
	traced, err := tracedLayer(dense, 0, nil, []graph.Type{{Shape: graph.Shape{n, n}}}, nil)
	if err != nil {
		return 0, err
	}
	product := compiledLayer(dense, traced, 0, nil, 1)
	product.allocate(1)
	var best float64
	for range times {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := product.stage.Forward.Run(pool, &product.memory, &program.Env{Step: 1, LossScale: 1}, program.Options{}); err != nil {
			return 0, err
		}
		best = max(best, 2*n*n*n/time.Since(start).Seconds())
	}
	return best, nil
}

// BatchOf gives types of single examples their leading dimension.
func BatchOf(types []graph.Type, n int) []graph.Type {
	out := make([]graph.Type, len(types))
	for i, t := range types {
		out[i] = graph.Type{Shape: append(graph.Shape{n}, t.Shape...), DType: t.DType}
	}
	return out
}
