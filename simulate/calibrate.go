package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/failure"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// Calibrating measures one core of this machine as an accelerator: the
// operations of small networks of each kind, in micro-batches of two sizes, on
// an emulated device. It takes some seconds, in which the machine must do nothing else.
type Calibrating struct {
	Name      string
	Optimizer string // whose update is measured
	Threads   int
	Seed      uint64
	// Order has the schedule, the chunks of each device and the checkpoint mode of probes. Zero:
	// GPipe's, everything re-materialised.
	Order train.Setup
	// Own is a network whose own operations are timed as well, on one device,
	// in mini-batches of Batch split into MicroBatches. No name: none.
	Own          train.Model
	Batch        int
	MicroBatches int
}

// ProbeShape is a network whose operations are timed.
type ProbeShape struct {
	Model       train.Model
	Batch, M, K int
}

// ProbeShapes have all kinds of operation that the models have. Their sizes are
// fixed: a calibration does not depend on what it will predict.
var ProbeShapes = []ProbeShape{
	{train.Model{Name: train.LanguageModel, Layers: 2, Dim: 192, FF: 768, Heads: 6, Vocab: 1536, Seq: 96}, 8, 4, 2},
	{train.Model{Name: train.LanguageModel, Layers: 2, Dim: 320, FF: 1280, Heads: 10, Vocab: 1536, Seq: 48}, 8, 4, 2},
	{train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 48, Image: 64, Classes: 100}, 8, 4, 4},
	{train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 24, Image: 128, Classes: 100}, 8, 4, 4},
	{train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 64, Image: 64, Classes: 100}, 8, 4, 4},
	{train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 40, Image: 96, Classes: 100}, 8, 4, 4},
	{train.Model{Name: "resnet50", Width: 24, Image: 96, Classes: 100}, 8, 4, 4},
	{train.Model{Name: "resnet50", Width: 40, Image: 64, Classes: 100}, 8, 4, 4},
}

// taskProbe is a network of many tasks whose instructions take almost no time: what is
// left is the overhead of a task.
var taskProbe = ProbeShape{train.Model{Name: train.LanguageModel, Layers: 6, Dim: 16, FF: 16, Heads: 1, Vocab: 16, Seq: 8}, 8, 8, 8}

// calibrationTurns are timed after one that is not.
const calibrationTurns = 4

// Run measures, and returns the accelerator.
func (c Calibrating) Run(ctx context.Context, p progress.Progress) (*accelerator.Accelerator, error) {
	// First what may be refused.
	if err := accelerator.CheckName(c.Name); err != nil {
		return nil, failure.Usagef("name %w", err)
	}
	var own *Probe
	var err error
	if c.Own.Name != "" {
		if own, err = c.OpenProbe(ctx, ProbeShape{c.Own, c.Batch, c.MicroBatches, 1}); err != nil {
			return nil, err
		}
		defer own.Close()
	}
	k, err := c.Open(ctx, ProbeShapes)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	p.Begin("calibrating", calibrationTurns+1)
	defer p.End()
	for turn := range calibrationTurns + 1 {
		timed := turn > 0
		if err := k.Turn(ctx, timed); err != nil {
			return nil, err
		}
		if own != nil {
			if err := own.Watched(ctx, timed); err != nil {
				return nil, err
			}
		}
		p.Advance(fmt.Sprintf("turn %d of all networks", turn))
	}
	host, err := k.Host()
	if err != nil || own == nil {
		return host, err
	}
	host.Sources["shapes"] = fmt.Sprintf("measured: the operations of %v on one device, mini-batches of %d in %d", c.Own, c.Batch, c.MicroBatches)
	return ShapesOf(host, own), nil
}

// calibrator has open probes. They take turns, so that a change of the machine's
// speed affects all of them alike.
type calibrator struct {
	Calibrating
	probes []*Probe
	tasks  *Probe
}

// Open opens the probes.
func (c Calibrating) Open(ctx context.Context, probes []ProbeShape) (k *calibrator, err error) {
	k = &calibrator{Calibrating: c}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	for _, probe := range probes {
		open, err := c.OpenProbe(ctx, probe)
		if err != nil {
			return k, err
		}
		k.probes = append(k.probes, open)
	}
	k.tasks, err = c.OpenProbe(ctx, taskProbe)
	return k, err
}

// Turn makes every probe take a step, and the probe of tasks a second one that is not
// watched.
func (k *calibrator) Turn(ctx context.Context, timed bool) error {
	for _, probe := range append(slices.Clip(k.probes), k.tasks) {
		if err := probe.Watched(ctx, timed); err != nil {
			return err
		}
	}
	return k.tasks.Unwatched(ctx, timed)
}

// Host returns this machine's core as an accelerator, by rates and overheads of its
// operations.
func (k *calibrator) Host() (*accelerator.Accelerator, error) {
	a := &accelerator.Accelerator{
		Name: k.Name, Description: fmt.Sprintf("%s of %s, %s kernels", units.Counted(max(k.Threads, 1), "thread"), machine.CPUModel(), nn.KernelProfile()),
		Memory: machine.Memory(), Bandwidth: nn.VectorBandwidth(), Lanes: nn.VectorLanes(), Tiled: true, Packing: true,
		Sources: map[string]string{
			"flops": "the fastest of ops", "bandwidth": "measured: a sum of two vectors of 64 MiB", "memory": "the machine's", "lanes": "the kernels' vectors of float32",
			"ops": fmt.Sprintf("measured %s: the operations of small networks on an emulated device, %s; rates and overheads by a Poisson regression of times", time.Now().UTC().Format(time.DateOnly), k.Optimizer),
		},
	}
	var tasks [][]float64
	for _, t := range k.tasks.Times {
		tasks = append(tasks, t.Tasks())
	}
	k.tasks.watched.Tasks(tasks, taskProbe.M)
	all := &accelerator.Calibration{}
	all.Join(k.tasks.watched)
	for _, probe := range k.probes {
		all.Join(probe.watched)
	}
	all.Fit(a)
	for _, own := range a.Ops {
		a.F32 = max(a.F32, own.FLOPs)
	}
	if a.F32 == 0 {
		return nil, fmt.Errorf("matrix products took equally long whatever their size: want an idle machine")
	}
	return a, nil
}

func (k *calibrator) Close() {
	for _, probe := range k.probes {
		probe.Close()
	}
	if k.tasks != nil {
		k.tasks.Close()
	}
}

// Probe is a probe's training, and what has been timed of it.
type Probe struct {
	*train.Loop // nil: it is not open
	Shape       ProbeShape
	way         Calibrating
	watched     *accelerator.Calibration
	Times       []*gpipe.Times // of steps that were not watched
	made        Compared       // what is known of it without a model
	pipeline    gpipe.Pipeline
}

// Closed is a probe that is opened for each of its turns.
func (c Calibrating) Closed(probe ProbeShape) *Probe {
	return &Probe{Shape: probe, way: c, watched: &accelerator.Calibration{}}
}

// Training returns that of a probe.
func (c Calibrating) Training(probe ProbeShape) train.Training {
	setup := c.Order
	setup.Partitions, setup.MicroBatches, setup.Device, setup.Threads = probe.K, probe.M, gpipe.Emulated, max(c.Threads, 1)
	return train.Training{
		Model: probe.Model, Setup: setup,
		Batch: probe.Batch, Seed: c.Seed, Optimizer: c.Optimizer, LR: 1e-4, LRSchedule: "constant",
	}
}

// OpenProbe opens one.
func (c Calibrating) OpenProbe(ctx context.Context, probe ProbeShape) (*Probe, error) {
	p := c.Closed(probe)
	return p, p.open(ctx)
}

func (o *Probe) open(ctx context.Context) (err error) {
	o.Loop, err = new(train.Timing).Open(ctx, o.way.Training(o.Shape))
	return err
}

// Turn opens the probe for a step that warms it up and one that is timed, and watched if the network is on one device.
// So several that take turns never need the memory of more than one.
func (o *Probe) Turn(ctx context.Context) (err error) {
	defer func() {
		if o.Loop != nil {
			err = errors.Join(err, o.Close())
			o.Loop = nil
		}
		if err != nil {
			err = fmt.Errorf("%s, %v, K=%d: %w", o.Shape.Model.Name, o.way.Order.Schedule, o.Shape.K, err)
		}
	}()
	if err := o.open(ctx); err != nil {
		return err
	}
	step := o.Unwatched
	if o.Shape.K == 1 {
		step = o.Watched
	}
	for _, timed := range []bool{false, true} {
		if err := step(ctx, timed); err != nil {
			return err
		}
	}
	o.pipeline = o.Pipeline
	o.made.Partition, _ = o.Trainer.Sizes()
	o.made.Peak, o.made.HighWater = o.Memory()
	return nil
}

// Watched makes a step and, if it is timed, records the time of every instruction.
func (o *Probe) Watched(ctx context.Context, timed bool) error {
	if timed {
		o.Trainer.Watch(func(run gpipe.KernelRun) { o.watched.Watch(run.Instr, run.Seconds) })
		defer o.Trainer.Watch(nil)
	}
	r, err := o.Step(ctx)
	if err != nil || !timed {
		return err
	}
	for k, plan := range o.Trainer.Plans() {
		times := &r.Times.Stages[k]
		o.watched.Moved(accelerator.Clear, plan.ClearBytes(), times.Setup)
		o.watched.Moved(accelerator.Update, plan.UpdateBytes(), times.Update)
	}
	return nil
}

// ShapesOf returns the host with the times of the operations of some probes.
func ShapesOf(host *accelerator.Accelerator, probes ...*Probe) *accelerator.Accelerator {
	all := &accelerator.Calibration{}
	for _, o := range probes {
		all.Join(o.watched)
	}
	own := *host
	all.Shapes(&own)
	return &own
}

// Compared is a pipeline as emulated, and as modelled by two calibrations of one device.
type Compared struct {
	Seconds      float64 `json:"seconds"` // of an emulated step whose tasks take the medians of their kinds
	Own          float64 `json:"own"`     // modelled by the network's own operations, timed on one device
	Rates        float64 `json:"rates"`   // modelled by rates and overheads from other networks
	Partition    []int   `json:"partition"`
	Peak         []int64 `json:"peak_bytes"`
	HighWater    []int64 `json:"high_water_bytes"`
	ModelledPeak []int64 `json:"modelled_peak_bytes"`
}

// SameMemory reports whether plan, run and model agree to the byte.
func (c *Compared) SameMemory() bool {
	return slices.Equal(c.Peak, c.HighWater) && slices.Equal(c.Peak, c.ModelledPeak)
}

// Compare reduces what was timed of the probe in its turns, which rates and own then model.
func (o *Probe) Compare(rates, own *accelerator.Accelerator) (*Compared, error) {
	c := o.made
	var samples gpipe.Samples
	for _, t := range o.Times {
		samples.Add(t)
	}
	tl, err := samples.Median().Replay()
	if err != nil {
		return nil, err
	}
	c.Seconds = tl.Span()
	on := o.pipeline
	on.Balance = c.Partition
	on.Devices = []gpipe.Device{{Kind: gpipe.Modelled, Threads: 1, Accelerator: rates, Capacity: rates.Memory, Link: rates.Link}}
	compiled, err := on.Compiled(o.Shape.Model.Input(o.Shape.Batch), gpipe.Modelling{DType: graph.F32, Accounting: gpipe.FullAccounting})
	if err != nil {
		return nil, err
	}
	of := on.Variant()
	sim, err := compiled.Simulate(of, true)
	if err != nil {
		return nil, err
	}
	c.Rates = sim.Seconds
	for _, d := range sim.Devices {
		c.ModelledPeak = append(c.ModelledPeak, d.PeakBytes)
	}
	of.Device.Accelerator = own
	if sim, err = compiled.Simulate(of, true); err != nil {
		return nil, err
	}
	c.Own = sim.Seconds
	return &c, nil
}

// Unwatched makes a step and, if it is timed, records the times of its tasks.
func (o *Probe) Unwatched(ctx context.Context, timed bool) error {
	r, err := o.Step(ctx)
	if err == nil && timed {
		o.Times = append(o.Times, r.Times)
	}
	return err
}
