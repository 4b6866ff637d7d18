package gpipe

import (
	"errors"
	"fmt"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
)

// device is one partition set up to run: its memory, its threads and its
// parameters. Only its stage's goroutine uses it during a step.
type device struct {
	at      place.Place
	k       int // its stage
	net     *network
	mem     *memory
	pool    *program.Pool
	weights []weight
	index   map[int]int // from a parameter of the network to its weight here
	moving  []moving
	states  [][]float32       // the moving averages, in layer order
	layout  *reduction.Layout // of the weights, for norms and replicas
}

// weight is a trained parameter on a device.
type weight struct {
	param int // index into network.params
	w     []float32
	own   reduction.Block // the part that this replica updates: all of it, unless updates are divided
	state [][]float32     // of that part: the optimiser's slots, then the average, if one is kept
	grads [][]float32     // one accumulator for each use on this stage, in layer order
	sums  [][]float32     // of groups, in the places of a reduction.Stack
}

// newDevice allocates the planned memory and initialises it.
func newDevice(n *network, plan *Plan) (*device, error) {
	k := plan.At.Stage
	described := n.Devices[k]
	var mem *memory
	var err error
	if described.Overcommit {
		mem, err = allocateWalled(plan, described.Capacity)
	} else {
		mem, err = allocate(plan, n.testing)
	}
	if err != nil {
		return nil, fmt.Errorf("device %d: %d bytes: %w", n.deviceOf(plan.At), plan.Peak, err)
	}
	d := &device{at: plan.At, k: k, net: n, mem: mem, pool: program.NewPool(described.threads()), index: map[int]int{}}
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
	defer n.Devices[d.k].faultsPanic()()
	defer func() {
		if v := recover(); v != nil {
			if err = d.overrun(v, where); err == nil {
				panic(v)
			}
		}
	}()
	st := n.largest(d.k)
	global := map[*nn.Param]int{}
	for i := range n.params {
		global[n.params[i].Param] = i
	}
	params := mem.slot(program.Params, 0)
	values := map[*nn.Param][]float32{}
	for j, p := range n.stageParams(d.k) {
		o := st.Params[j]
		w := params[o.Off:o.End():o.End()]
		path := n.paths[p]
		where = path
		p.Init(philox.NewStream(philox.KeyOf(n.Seed, path), 0), p.Shape, w)
		mem.touch(program.Params, 0, o.End())
		if p.State {
			values[p] = w
			d.states = append(d.states, w)
		}
		if p.Frozen {
			continue
		}
		d.index[global[p]] = len(d.weights)
		d.weights = append(d.weights, weight{param: global[p], w: w})
	}
	d.findMoving(values)
	d.layout = reduction.NewLayout(n.sumSizes(d.k))
	for i, own := range n.updated(d.at) {
		d.weights[i].own = own
	}
	for i := range d.weights {
		w := &d.weights[i]
		for _, offsets := range mem.plan.state {
			off := offsets[i]
			w.state = append(w.state, mem.parts[OptimizerState][off:off+w.own.Len():off+w.own.Len()])
		}
		n.startState(w)
		for _, u := range n.params[w.param].uses {
			if u.stage == d.k && n.trains() {
				o := st.Uses[u.index].Operand
				w.grads = append(w.grads, mem.slot(program.Grads, 0)[o.Off:o.End():o.End()])
			}
		}
	}
	d.findSums()
	return nil
}

func (d *device) close() error {
	d.pool.Close()
	return d.mem.free()
}
