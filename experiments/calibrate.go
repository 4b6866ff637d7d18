package experiments

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"gpipebench/gpipe"
	"gpipebench/nn"
)

// Calibrating measures one core of this machine as an accelerator: the
// operations of small networks of each kind, in micro-batches of two sizes, on
// an emulated device. It takes seconds, and wants a machine that does nothing
// else.
type Calibrating struct {
	Name      string
	Optimizer string // whose update is measured
	Threads   int
	Seed      uint64
}

// calibrationProbe is a network whose operations are timed.
type calibrationProbe struct {
	model       Model
	batch, m, k int
}

// calibrationProbes have the kinds of operation that the networks have. Their
// sizes are fixed: a calibration knows nothing of what it will predict.
var calibrationProbes = []calibrationProbe{
	{Model{Name: languageModel, Layers: 2, Dim: 192, FF: 768, Heads: 6, Vocab: 1536, Seq: 96}, 8, 2, 2},
	{Model{Name: languageModel, Layers: 2, Dim: 320, FF: 1280, Heads: 10, Vocab: 1536, Seq: 128}, 8, 4, 2},
	{Model{Name: amoebaNet, Layers: 3, Filters: 48, Image: 64, Classes: 100}, 8, 2, 4},
	{Model{Name: amoebaNet, Layers: 3, Filters: 24, Image: 128, Classes: 100}, 4, 2, 4},
	{Model{Name: "resnet50", Width: 24, Image: 96, Classes: 100}, 4, 2, 4},
	{Model{Name: "resnet50", Width: 40, Image: 64, Classes: 100}, 8, 4, 4},
}

// calibrationSteps are timed after two that are not.
const calibrationSteps = 7

// Run measures. The outcome is the text of an accelerator's file.
func (c Calibrating) Run(ctx context.Context, p Progress) (*gpipe.Accelerator, error) {
	optimizer, err := ParseOptimizer(c.Optimizer)
	if err != nil {
		return nil, usage(err)
	}
	a := &gpipe.Accelerator{
		Name: c.Name, Description: fmt.Sprintf("%d threads of %s, %s kernels", max(c.Threads, 1), cpuModel(), kernelProfile()),
		Memory: machineMemory(), Lanes: 1, Packing: true,
		Sources: map[string]string{
			"flops": "the fastest of ops", "bandwidth": "measured: a sum of two vectors of 64 MiB", "memory": "the machine's",
			"ops": fmt.Sprintf("measured %s: the operations of small networks on an emulated device, %s; rates and overheads by least squares of relative errors, weighted by time", time.Now().UTC().Format(time.DateOnly), c.Optimizer),
		},
	}
	calibration := &gpipe.Calibration{}
	p.Begin("calibrating", len(calibrationProbes)*(calibrationSteps+2))
	defer p.End()
	for _, probe := range calibrationProbes {
		if err := c.probe(ctx, probe, optimizer, calibration, p); err != nil {
			return nil, err
		}
	}
	a.Bandwidth = vectorBandwidth()
	calibration.Fit(a)
	for _, own := range a.Ops {
		a.F32 = max(a.F32, own.FLOPs)
	}
	if a.F32 == 0 {
		return nil, fmt.Errorf("products took as long whatever their size: want a machine that does nothing else")
	}
	return a, nil
}

// probe trains a probe for a few steps and has its instructions watched.
func (c Calibrating) probe(ctx context.Context, probe calibrationProbe, optimizer nn.Optimizer, to *gpipe.Calibration, progress Progress) error {
	layers, err := probe.model.Build()
	if err != nil {
		return err
	}
	loss, err := probe.model.Loss(0)
	if err != nil {
		return err
	}
	setup := Setup{Partitions: probe.k, MicroBatches: probe.m, Device: gpipe.Emulated, Threads: max(c.Threads, 1)}
	in := probe.model.Input(probe.batch)
	p, err := setup.pipeline(ctx, layers, loss, in)
	if err != nil {
		return err
	}
	own := &gpipe.Calibration{}
	p.Seed, p.Optimizer, p.LR = c.Seed, optimizer, nn.ConstantLR(1e-4)
	trainer, err := p.Open(in)
	if err != nil {
		return err
	}
	defer trainer.Close()
	batch, err := timingBatch(probe.model, probe.batch, c.Seed)
	if err != nil {
		return err
	}
	var unwatched []*gpipe.Times
	for step := range calibrationSteps + 2 {
		// The first two are not timed; then every other one is watched.
		watched := step >= 2 && step%2 == 0
		trainer.Watch(nil)
		if watched {
			trainer.Watch(own.Watch)
		}
		r, err := trainer.Step(ctx, batch)
		if err != nil {
			return err
		}
		if step >= 2 {
			for k, plan := range trainer.Plans() {
				own.Updates(plan, r.Times.Stages[k])
			}
			if !watched {
				unwatched = append(unwatched, r.Times)
			}
		}
		progress.Advance(probe.model.Name)
	}
	own.Tasks(unwatched)
	to.Join(own)
	return nil
}

// vectorBandwidth is what adding a vector to another moves, in bytes per
// second: two are read and one is written, too long for caches.
func vectorBandwidth() float64 {
	const floats = 16 << 20
	x, y := make([]float32, floats), make([]float32, floats)
	var times []float64
	for range 5 {
		start := time.Now()
		nn.AddInto(x, y)
		times = append(times, time.Since(start).Seconds())
	}
	return 3 * 4 * floats / median(times)
}

// machineMemory is the machine's memory, or a terabyte if the system does not tell.
func machineMemory() int64 {
	if runtime.GOOS == "linux" {
		if text, err := os.ReadFile("/proc/meminfo"); err == nil {
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
					if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
						return kib << 10
					}
				}
			}
		}
	}
	return 1 << 40
}
