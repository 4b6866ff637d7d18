package gpipe

import (
	"errors"
	"fmt"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
)

// device is one or more pieces of the network set up to run: their memory, threads and
// parameters. Only the goroutine of its list uses it during a step.
type device struct {
	at      place.Place
	k       int // its number in its replica
	net     *plan.Network
	mem     *memory
	parts   []*memory     // of the parts after the first
	pool    *program.Pool // for the update
	tasks   *program.Pool // for tasks: the same, unless there are parts, with as many threads for each
	weights []weight
	index   map[int][]int // from a parameter of the network to its weights here, one in each piece that has it, or for each part its slice
	moving  []moving
	states  [][]float32       // the moving averages, in layer order
	layout  *reduction.Layout // of the weights, for norms and replicas
	reduced *reduction.Layout // the same without gathered gradients
}

// weight is a trained parameter on a device.
type weight struct {
	param int // index into plan.Network.Params
	chunk int
	twin  bool          // another piece of the device, before this one, has the parameter too
	part  int           // of the stage, whose memory has it
	runs  []program.Run // of the parameter's elements, that the weight is; nil: all of them
	w     []float32
	own   reduction.Block // the part that this replica updates: all of it, unless updates are divided
	state [][]float32     // of that part: the optimiser's slots, then the average, if one is kept
	grads [][]float32     // one accumulator for each use on this stage, in layer order
	sums  [][]float32     // of groups, in the places of a reduction.Stack
	// rows and ids hold all groups of a mini-batch if the gradient is gathered, nil
	// otherwise (see plan.TableRows).
	rows []float32
	ids  []int32
}

// newDevice allocates the planned memory and initialises it.
func newDevice(n *plan.Network, plan *Plan, h hooks) (*device, error) {
	k := plan.At.Stage
	described := n.Devices[k]
	var mem *memory
	var err error
	if described.Overcommit {
		mem, err = allocateWalled(plan, described.Capacity)
	} else {
		mem, err = allocate(plan, h)
	}
	if err != nil {
		return nil, fmt.Errorf("device %d: %d bytes: %w", n.DeviceOf(plan.At), plan.Peak, err)
	}
	d := &device{at: plan.At, k: k, net: n, mem: mem, pool: program.NewPool(described.Workers()), index: map[int][]int{}}
	if d.tasks = d.pool; len(plan.Parts) > 0 {
		d.tasks = program.NewPool((1 + len(plan.Parts)) * described.Workers())
	}
	for i, plan := range plan.Parts {
		part, err := allocate(plan, h)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("device %d, part %d: %d bytes: %w", n.DeviceOf(plan.At), i+1, plan.Peak, err), d.close())
		}
		d.parts = append(d.parts, part)
	}
	if err := d.initialise(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// initialise finds the stage's parameters in the arena and fills them. On an
// overcommitted device they may not fit.
func (d *device) initialise() (err error) {
	n, mem := d.net, d.mem
	where := ""
	defer faultsPanic(n.Devices[d.k])()
	defer func() {
		if v := recover(); v != nil {
			if err = d.overrun(v, where); err == nil {
				panic(v)
			}
		}
	}()
	global := map[*nn.Param]int{}
	for i := range n.Params {
		global[n.Params[i].Param] = i
	}
	for c, piece := range n.Pieces.On(d.k) {
		params := mem.slot(c, program.Params, 0)
		values := map[*nn.Param][]float32{}
		for j, p := range n.StageParams(piece) {
			o := n.Largest(piece).Params[j]
			w := params[o.Off:o.End():o.End()]
			path := n.Paths[p]
			where = path
			draw := philox.NewStream(philox.KeyOf(n.Seed, path), 0)
			if n.Tensor > 1 && p.Split.Units > 0 {
				d.initialiseSlices(p, draw, global[p], c, j)
				continue
			}
			p.Init(draw, p.Shape, w)
			mem.touch(c, program.Params, 0, o.End())
			if p.State {
				values[p] = w
				d.states = append(d.states, w)
			}
			if p.Frozen {
				continue
			}
			own := d.index[global[p]]
			d.index[global[p]] = append(own, len(d.weights))
			d.weights = append(d.weights, weight{param: global[p], chunk: c, twin: len(own) > 0, w: w})
		}
		d.findMoving(c, piece, values)
	}
	d.layout, d.reduced = n.Layout(d.k), n.ReducedLayout(d.k)
	for i, own := range n.Updated(d.at) {
		d.weights[i].own = own
	}
	for i := range d.weights {
		w := &d.weights[i]
		mem := d.memory(w.part)
		for _, offsets := range mem.plan.State {
			off := offsets[i]
			w.state = append(w.state, mem.parts[OptimizerState][off:off+w.own.Len():off+w.own.Len()])
		}
		startState(n, w)
		for _, u := range n.Params[w.param].Uses {
			if u.Stage == n.Pieces.On(d.k)[w.chunk] && n.Trains() {
				o := partOf(n.Largest(u.Stage), w.part).Uses[u.Index].Operand
				w.grads = append(w.grads, mem.slot(w.chunk, program.Grads, 0)[o.Off:o.End():o.End()])
			}
		}
	}
	d.findSums()
	return nil
}

// highWater is what the device has used of its memory so far.
func (d *device) highWater() highWater {
	used := d.mem.highWater()
	for _, part := range d.parts {
		used.Parts = append(used.Parts, part.highWater())
	}
	return used
}

func (d *device) close() error {
	d.pool.Close()
	if d.tasks != d.pool {
		d.tasks.Close()
	}
	errs := []error{d.mem.free()}
	for _, part := range d.parts {
		errs = append(errs, part.free())
	}
	return errors.Join(errs...)
}

// startState sets a weight's state, all zeros so far, to its first values.
func startState(n *plan.Network, w *weight) {
	if o, ok := n.Optimizer.(nn.StateInitializer); ok {
		for i, state := range w.state[:len(n.Optimizer.Slots())] {
			if v := o.InitState(i); v != 0 { // otherwise its pages stay untouched
				for j := range state {
					state[j] = v
				}
			}
		}
	}
	if n.EMA.Kept() {
		copy(w.average(), w.w[w.own.From:])
	}
}
