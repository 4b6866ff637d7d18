package playground

import (
	"context"
	"strings"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
)

// Planned is what is known before a training begins.
type Planned struct {
	Command string         `json:"command"`
	Params  int64          `json:"params"`
	Steps   int            `json:"steps"`
	GFLOP   float64        `json:"gflop"` // of all steps' products: 2 x multiply-adds, forward, backward and what is recomputed
	Layers  []string       `json:"layers"`
	Sizes   []int          `json:"sizes"` // layers of each piece
	Parts   []string       `json:"parts"` // names of the categories of memory
	Devices []DeviceMemory `json:"devices"`
	Formula Formula        `json:"formula"`
}

// DeviceMemory is a device's memory in bytes, planned and, after a training, used, by category.
type DeviceMemory struct {
	Planned []int64 `json:"planned"`
	Used    []int64 `json:"used,omitempty"`
	Peak    int64   `json:"peak"`
	High    int64   `json:"high,omitempty"`
}

// Formula is what section 2.3 of the paper says of a pipeline of even stages.
type Formula struct {
	Bubble      float64 `json:"bubble"`      // (K-1)/(M+K-1)
	Activations float64 `json:"activations"` // bytes of a device: N inputs of a stage, and L/K layers for N/M examples
}

// Step is a step that is done.
type Step struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss"`
	// Timed is a step of the means so far, of every tenth step; nil: of others.
	Timed *Timed `json:"timed,omitempty"`
}

// Trained is the outcome of a training.
type Trained struct {
	SHA256    string  `json:"sha256"`
	Published string  `json:"published"` // "": of no known hash
	Readme    bool    `json:"readme"`    // the published hash is README's
	Function  string  `json:"function"`
	BatchNorm bool    `json:"batch_norm"`
	Loss      float64 `json:"loss"`     // held out
	Accuracy  float64 `json:"accuracy"` // held out
	Seconds   float64 `json:"seconds"`  // of the wall clock, all steps
	Timed     *Timed  `json:"timed"`
	Planned   Planned `json:"planned"`
	Trace     string  `json:"trace"` // for Perfetto
}

// Timed is a step on the virtual clock, in which each task takes the mean of its times in all
// steps: the clock of a browser moves in ticks.
type Timed struct {
	Tick        float64   `json:"tick"`        // seconds
	Repetitions int       `json:"repetitions"` // of each task
	Span        float64   `json:"span"`        // seconds
	Bubble      float64   `json:"bubble"`      // share of the step, as gpipe/clock's Breakdown says
	Imbalance   float64   `json:"imbalance"`   // as well
	Idle        []float64 `json:"idle"`        // share of the step, by device
	Tasks       [][]Task  `json:"tasks"`       // by device
}

// Task is a task of a device, in seconds from the step's start.
type Task struct {
	Kind  string  `json:"kind"`
	Micro int     `json:"micro"`
	Chunk int     `json:"chunk"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Plan plans a training, without allocating anything.
func Plan(s Settings) (*Planned, error) {
	p, n, err := s.pipeline()
	if err != nil {
		return nil, err
	}
	command, err := s.Command()
	if err != nil {
		return nil, err
	}
	in := n.input(n.batch)
	planned, err := p.Plans(in)
	if err != nil {
		return nil, err
	}
	d, err := p.Describe(in)
	if err != nil {
		return nil, err
	}
	out := &Planned{Command: command, Params: d.Params, Steps: n.steps, Sizes: planned.Sizes}
	var forward, saved, passed float64
	for _, l := range d.Layers {
		out.Layers = append(out.Layers, l.Name)
		forward += float64(l.FLOPs)
		saved += float64(l.SavedBytes)
	}
	passes := 3.
	if p.Checkpoint != schedule.Never {
		passes = 4 // at most
	}
	out.GFLOP = passes * forward * float64(n.batch*n.steps) / 1e9
	for c := range gpipe.Categories {
		out.Parts = append(out.Parts, c.String())
	}
	for _, one := range planned.Plans {
		out.Devices = append(out.Devices, DeviceMemory{Planned: one.Bytes[:], Peak: one.Peak})
		passed = max(passed, float64(one.Bytes[plan.Boundary]))
	}
	k, m := float64(s.K), float64(s.M)
	out.Formula = Formula{Bubble: (k - 1) / (m + k - 1), Activations: passed + saved/k*float64(n.batch)/m}
	return out, nil
}

// Run trains, calling say after each step. It makes the given number of steps, to measure them,
// or with 0 the whole training, whose weights are then hashed and scored.
func Run(ctx context.Context, s Settings, steps int, say func(Step)) (out *Trained, err error) {
	planned, err := Plan(s)
	if err != nil {
		return nil, err
	}
	p, n, err := s.pipeline()
	if err != nil {
		return nil, err
	}
	source, err := n.source(s.Seed)
	if err != nil {
		return nil, err
	}
	trainer, err := p.Open(n.input(n.batch))
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	whole := steps == 0
	if whole {
		steps = n.steps
	}
	out = &Trained{Planned: *planned, Function: s.Function(), BatchNorm: n.batchNorm, Readme: s.Function() == Defaults(s.Net).Function()}
	var times []*gpipe.Times
	begin := time.Now()
	for i := range steps {
		batch, err := source.Batch(datasets.Train, i, n.batch)
		if err != nil {
			return nil, err
		}
		r, err := trainer.Step(ctx, batch)
		if err != nil {
			return nil, err
		}
		if i > 0 || steps == 1 { // the first one touches everything for the first time
			times = append(times, r.Times)
		}
		done := Step{Step: i + 1, Loss: r.Loss}
		if done.Step%10 == 0 && done.Step < steps {
			if done.Timed, _, err = timed(times); err != nil {
				return nil, err
			}
		}
		say(done)
	}
	out.Seconds = time.Since(begin).Seconds()
	for i := range out.Planned.Devices {
		used, high := trainer.HighWater(i)
		out.Planned.Devices[i].Used, out.Planned.Devices[i].High = used[:], high
	}
	if out.Timed, out.Trace, err = timed(times); err != nil || !whole {
		return out, err
	}
	out.SHA256, out.Published = trainer.Hash(), s.Published()
	out.Loss, out.Accuracy, err = heldOut(ctx, trainer, source, n.batch)
	return out, err
}

// heldOut scores the weights on what is held out.
func heldOut(ctx context.Context, trainer *gpipe.Trainer, source datasets.Source, examples int) (loss, accuracy float64, err error) {
	count, correct := 0, 0
	for i := range source.Batches(datasets.HeldOut, examples) {
		batch, err := source.Batch(datasets.HeldOut, i, examples)
		if err != nil {
			return 0, 0, err
		}
		r, err := trainer.Evaluate(ctx, batch)
		if err != nil {
			return 0, 0, err
		}
		loss += r.Loss * float64(r.Count)
		count, correct = count+r.Count, correct+r.Correct
	}
	return loss / float64(count), float64(correct) / float64(count), nil
}

// timed replays the step of mean times.
func timed(steps []*gpipe.Times) (t *Timed, trace string, err error) {
	times := meanOf(steps)
	tl, err := times.Replay()
	if err != nil {
		return nil, "", err
	}
	parts, err := times.Breakdown()
	if err != nil {
		return nil, "", err
	}
	t = &Timed{Tick: tick(), Repetitions: len(steps), Span: tl.Span(), Bubble: parts.Bubble / parts.Step, Imbalance: parts.Imbalance / parts.Step, Tasks: make([][]Task, tl.Devices)}
	for _, idle := range tl.Causes() {
		t.Idle = append(t.Idle, idle.Sum()/tl.Span())
	}
	for _, e := range tl.Events {
		if e.Kind.Task() || e.Kind == timeline.Update || e.Kind == timeline.Setup {
			device := tl.Device(e.At)
			t.Tasks[device] = append(t.Tasks[device], Task{e.Kind.String(), e.Micro, e.At.Chunk, e.Start, e.End})
		}
	}
	var b strings.Builder
	err = draw.WriteChrome(&b, tl, nil)
	return t, b.String(), err
}

// meanOf is a step in which every task takes the mean of its times in the steps.
func meanOf(steps []*gpipe.Times) *gpipe.Times {
	mean := *steps[0]
	mean.Stages = make([]gpipe.StageTimes, len(mean.Stages))
	for k := range mean.Stages {
		into, one := fields(&mean.Stages[k])
		for n, step := range steps {
			lists, single := fields(&step.Stages[k])
			for i, list := range lists {
				if n == 0 && *list != nil {
					*into[i] = make([]float64, len(*list))
				}
				for j, seconds := range *list {
					(*into[i])[j] += seconds / float64(len(steps))
				}
			}
			for i, seconds := range single {
				*one[i] += *seconds / float64(len(steps))
			}
		}
	}
	return &mean
}

// fields are the times of one replica's stage, by micro-batch and single.
func fields(t *gpipe.StageTimes) (lists []*[]float64, single []*float64) {
	return []*[]float64{&t.F, &t.R, &t.B, &t.I, &t.W}, []*float64{&t.Setup, &t.Update, &t.Reduce, &t.Gather, &t.Rows}
}

// tick is by how much the clock moves at least, in seconds.
func tick() float64 {
	least := time.Second
	for range 5 {
		begin := time.Now()
		at := begin
		for at == begin || at.Sub(begin) <= 0 {
			at = time.Now()
		}
		least = min(least, at.Sub(begin))
	}
	return least.Seconds()
}
