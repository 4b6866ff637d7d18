package gpipe

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// emulated6Spec is the spec of section6-emulated.
type emulated6Spec struct {
	timed.Profiled[emulated6Profile] `yaml:",inline"`
	Optimizer                        string         `yaml:"optimizer" want:"optimizer"`
	LR                               float64        `yaml:"lr" want:">0.."`
	Ways                             []emulatedWay  `yaml:"ways"` // the first is what the others are held against
	Links                            []emulatedLink `yaml:"links"`
	Parts                            []int          `yaml:"parts" want:"1..64"` // T, of the layer; the first is what the others are held against
}

// emulatedWay is K stages of T devices each, which divide operations in T blocks.
type emulatedWay struct {
	Name     string `yaml:"name" want:"name,key"`
	K        int    `yaml:"k" want:"1..1024"`
	T        int    `yaml:"t" want:"1..64"`
	Schedule string `yaml:"schedule" want:"schedule"`
	Window   int    `yaml:"window" want:"0..4096"` // of an asynchronous schedule
	M        []int  `yaml:"m" want:"1..65536"`     // that are tried
}

type emulatedLink struct {
	Name      string  `yaml:"name" want:"name,key"`
	Bandwidth float64 `yaml:"bandwidth" want:"0..1e15"` // bytes a second; 0: transfers take no time
}

type emulated6Profile struct {
	timed.Size `yaml:",inline"`
	Model      train.Model `yaml:"model"`
	Batch      int         `yaml:"batch" want:"1..65536"`
	Layer      train.Model `yaml:"layer"` // the network whose one layer T devices divide
	LayerBatch int         `yaml:"layer_batch" want:"1..65536"`
}

// emulated6Run is a way with an M, or, if it has parts, the layer on as many devices.
type emulated6Run struct {
	way      string
	m, parts int
}

// emulatedUpdate is what an update takes on the devices' clock over each link; of the layer, over none.
type emulatedUpdate struct {
	Seconds []float64 `json:"seconds"`
}

// Check requires times.
func (r *emulatedUpdate) Check() error {
	if len(r.Seconds) == 0 || !(slices.Min(r.Seconds) > 0) {
		return fmt.Errorf("updates of %v s: want more than 0", r.Seconds)
	}
	return nil
}

// section6Emulated times updates on emulated devices. It needs code since a step may be a window of several
// updates, and since stages are timed once and replayed over all links.
type section6Emulated = timed.Compared[emulated6Spec, emulated6Profile, emulated6Run, emulatedUpdate]

func newSection6Emulated() (lab.Experiment, error) {
	x := &section6Emulated{}
	s := &x.Spec
	x.Training, x.Make, x.Show = s.training, s.measure, s.show
	x.Runs = func(emulated6Profile) []emulated6Run { return slices.Concat(s.tried(), s.divided()) }
	x.Name = func(r emulated6Run) string {
		if r.parts > 0 {
			return fmt.Sprintf("layer/T=%d", r.parts)
		}
		return fmt.Sprintf("%s/M=%d", r.way, r.m)
	}
	return x, nil
}

// tried are the runs of all ways, those of one way next to each other.
func (x *emulated6Spec) tried() (all []emulated6Run) {
	for _, way := range x.Ways {
		for _, m := range way.M {
			all = append(all, emulated6Run{way: way.Name, m: m})
		}
	}
	return all
}

// divided are the runs of the layer.
func (x *emulated6Spec) divided() (all []emulated6Run) {
	for _, parts := range x.Parts {
		all = append(all, emulated6Run{parts: parts})
	}
	return all
}

func (x *emulated6Spec) training(p emulated6Profile, run emulated6Run) train.Training {
	t := train.Training{Model: p.Layer, Data: "synthetic", Batch: p.LayerBatch, Seed: x.Seed, Optimizer: x.Optimizer, LR: x.LR, LRSchedule: "constant"}
	way := emulatedWay{K: 1, T: run.parts}
	if run.parts == 0 {
		way = x.Ways[slices.IndexFunc(x.Ways, func(w emulatedWay) bool { return w.Name == run.way })]
		t.Model, t.Batch = p.Model, p.Batch
	}
	if t.Steps = way.Window; t.Steps == 0 {
		t.Steps = 1 + countedSteps
	}
	t.Setup = train.Setup{
		Partitions: way.K, MicroBatches: max(run.m, 1), Tensor: way.T, Blocks: way.T, Schedule: lab.Named(schedule.Parse, way.Schedule), Window: way.Window,
		Device: gpipe.Emulated, Threads: 1, Checkpoint: schedule.Never,
	}
	return t
}

// measure times an update. What stages send is on the clock alone, but what parts of an operation send is in
// their tasks.
func (x *emulated6Spec) measure(ctx context.Context, p emulated6Profile, run emulated6Run) (*emulatedUpdate, error) {
	t := x.training(p, run)
	made := &emulatedUpdate{}
	var times *gpipe.Times
	for _, link := range x.Links {
		t.Setup.Link = clock.Link{Bandwidth: link.Bandwidth}
		if times == nil || t.Setup.Tensor > 1 {
			of, err := timesOf(ctx, t)
			if err != nil {
				return nil, err
			}
			times = of
		}
		times.Link = t.Setup.Link
		parts, err := times.Breakdown()
		if err != nil {
			return nil, err
		}
		if made.Seconds = append(made.Seconds, parts.Step/float64(max(1, t.Setup.Window))); run.parts > 0 {
			break // the first is enough
		}
	}
	return made, nil
}

// countedSteps are timed after a first one. A window repeats each kind of task within it, and is timed alone.
const countedSteps = 3

// timesOf are the times of a training's step, every kind of task at its median.
func timesOf(ctx context.Context, t train.Training) (*gpipe.Times, error) {
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var of gpipe.Samples
	for i := range t.Steps / max(1, t.Setup.Window) {
		step, err := l.Step(ctx)
		if err != nil {
			return nil, err
		}
		if i > 0 || t.Setup.Window > 0 {
			of.Add(step.Times)
		}
	}
	return of.Median(), nil
}

// emulatedRow is a run over one of the links.
type emulatedRow struct {
	emulated6Run
	link int
}

func (x *emulated6Spec) show(c *timed.Comparison[emulated6Profile, emulated6Run, emulatedUpdate]) (shown.Rows, error) {
	each := func(r emulatedRow) []float64 {
		return c.Each(r.emulated6Run, func(u *emulatedUpdate) float64 { return u.Seconds[r.link] })
	}
	for _, run := range x.tried() {
		for round, u := range c.Of[run] {
			if len(u.Seconds) != len(x.Links) {
				return nil, c.Log.Strange(c.Sample(run, round), fmt.Errorf("times over %d links: want %d", len(u.Seconds), len(x.Links)))
			}
		}
	}
	var fastest []emulatedRow // of each link and way the one with the least median
	for i := range x.Links {
		for _, run := range x.tried() {
			r, last := emulatedRow{run, i}, len(fastest)-1
			switch {
			case last < 0 || fastest[last].way != r.way || fastest[last].link != i:
				fastest = append(fastest, r)
			case stats.Median(each(r)) < stats.Median(each(fastest[last])):
				fastest[last] = r
			}
		}
	}
	var rows []shown.Values
	for i, r := range fastest {
		link, way := i/len(x.Ways), i%len(x.Ways)
		rows = append(rows, shown.Values{
			"link": x.Links[link].Name, "way": r.way, "M": max(r.m, 1), "tried": lab.JoinWith(x.Ways[way].M, " "), "layer": false,
			"update": each(r), "gpipe": each(fastest[link*len(x.Ways)]), "fast": each(fastest[way]), "one": []float64(nil),
		})
	}
	for _, run := range x.divided() {
		rows = append(rows, shown.Values{
			"link": x.Links[0].Name, "way": fmt.Sprintf("one layer, T = %d", run.parts), "M": 1, "tried": "", "layer": true,
			"update": each(emulatedRow{run, 0}), "gpipe": []float64(nil), "fast": []float64(nil), "one": each(emulatedRow{x.divided()[0], 0}),
		})
	}
	return shown.Rows{"": rows}, nil
}
