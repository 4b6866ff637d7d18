package gpipe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/gpipe/plan"
	"gpipebench/internal/machine"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// LayerTimes measures the layers' costs for a partitioner, in seconds: the time that
// each takes in a pipeline with re-materialisation. That is its forward, the forward
// again that keeps the residuals, and its backward, on a micro-batch of the pipeline's
// largest size, alone and with the threads of the first device. The last layer's cost
// includes the loss.
//
// Each layer runs once to warm up and then seven times, in turn with the others so
// that a disturbance does not affect one layer only. Its cost is the shortest time,
// since a disturbance only adds to it: on a busy machine the median of five moved cuts
// by many layers. Of layers that compute the same on the same shapes only the first is
// timed: ten thousand equal layers take the time and memory of one. The first layer
// runs on token 0 (or zeros), every other one on the outputs of the layer before it.
// Meanwhile the parameters of all timed layers are in memory once.
func (p Pipeline) LayerTimes(ctx context.Context, in Input) ([]float64, error) {
	defer pauseCollector()() // no garbage while the clock runs, as on emulated devices
	size := p.largestMicroBatch(in.Examples)
	threads := p.config().WithDefaults().Devices[0].Workers()
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
// them does. For each layer of the network, of is the index of the compiled one that
// is timed for it.
func distinctLayers(ctx context.Context, p Pipeline, in Input, size, threads int) (layers []*timedLayer, of []int, err error) {
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
			t := compiledLayer(layer, traced, i, l, threads, program.Of(p.DType))
			t.after = previous
			for _, span := range t.stage.Span {
				bytes += float64(4 * span)
			}
			n = len(layers)
			layers, known[same] = append(layers, t), n
		}
		of, previous, types = append(of, n), layers[n], traced.Out
	}
	if has, _ := machine.MemoryAndSwap(); has > 0 && bytes > float64(has) {
		return nil, nil, fmt.Errorf("the layers to be timed take %.0f bytes of memory, and this machine has %d: want a smaller network or micro-batch, or cuts by another cost than time", bytes, has)
	}
	return layers, of, nil
}

// timedLayer is one layer compiled as if it were a stage, and its memory.
type timedLayer struct {
	layer  nn.Layer
	after  *timedLayer // the layer whose outputs are its inputs; nil: token 0
	params []*nn.Param
	stage  *program.Stage
	memory program.Binding
}

// tracedLayer traces one layer. It returns a *MisfitError if the layer does not fit its
// inputs, such as a batch norm with a single value.
func tracedLayer(layer nn.Layer, index int, l nn.Loss, in, targets []graph.Type) (st *trace.Stage, err error) {
	defer plan.Misfit(&err)
	return trace.Layers([]nn.Layer{layer}, index, l, in, targets, true), nil
}

// computes returns the same text for layers that compute the same on the same
// shapes, whatever their names, parameters and random numbers are.
func computes(st *trace.Stage, gradIn bool, l nn.Loss) string {
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
		o := c.Op
		switch random := o.(type) { // its path differs from layer to layer
		case op.Dropout:
			random.Path = ""
			o = random
		case op.DropPath:
			random.Path = ""
			o = random
		}
		fmt.Fprintf(&b, "%T%v", o, o)
		nodes(c.In)
		nodes(c.Out)
	}
	return b.String()
}

// compiledLayer compiles a traced layer, without memory.
func compiledLayer(layer nn.Layer, traced *trace.Stage, index int, l nn.Loss, threads int, s program.Storage) *timedLayer {
	gradOut := make([]bool, len(traced.Out))
	for i, t := range traced.Out {
		gradOut[i] = l == nil && t.DType != graph.I32
	}
	return &timedLayer{layer: layer, params: traced.Params, stage: program.Compile(traced.Function, gradOut, index > 0, threads, s)}
}

// allocate allocates a compiled layer's memory and initialises its parameters.
func (t *timedLayer) allocate(seed uint64) {
	for s, span := range t.stage.Span {
		t.memory[s] = make([]float32, span)
	}
	for i, p := range t.params {
		o := t.stage.Params[i]
		p.Init(philox.NewStream(philox.KeyOf(seed, t.layer.Name()+"/"+p.Name), 0), p.Shape, t.memory[program.Params][o.Off:o.End()])
	}
	// Any gradient will do, as long as no number is denormal.
	for i := range t.memory[program.DOut] {
		t.memory[program.DOut][i] = 1
	}
}

// run runs the layer's three programs once and returns the seconds that they took.
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
