package bubbles

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
	"gpipebench/train"
)

// emulatedSpec is the spec of bubbles-emulated.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type emulatedSpec struct {
	timed.Profiled[emulatedProfile] `yaml:",inline"`
	K                               int      `yaml:"k" want:"2..64"`
	Optimizer                       string   `yaml:"optimizer" want:"optimizer"`
	Within                          float64  `yaml:"within" want:">0..1000"` // of the emulated step, in percent
	Schedules                       []string `yaml:"schedules" want:"schedule"`
	Checkpoints                     []string `yaml:"checkpoints" want:"checkpoint"`
}

type emulatedProfile struct {
	timed.Size `yaml:",inline"`
	Model      train.Model `yaml:"model"`
	Batch      int         `yaml:"batch" want:"1..65536"`
	M          int         `yaml:"m" want:"1..1024"`
	Turns      int         `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

// bubblesEmulated times schedules on emulated devices of equal memory, and compares modelled
// devices with them.
type bubblesEmulated struct {
	timed.Compared[emulatedSpec, emulatedProfile, emulatedWay, timed.ModelledStep]
}

type emulatedRuns = timed.Comparison[emulatedProfile, emulatedWay, timed.ModelledStep]

// emulatedWay is a schedule in a checkpoint mode.
type emulatedWay struct{ schedule, checkpoint string }

// aloneWays are those in which the network runs on one device: with B whole, and with I and W.
var aloneWays = []emulatedWay{{"gpipe", "always"}, {"zb-h1", "always"}}

func newBubblesEmulated() (lab.Experiment, error) {
	e := &bubblesEmulated{}
	e.Runs = func(emulatedProfile) []emulatedWay { return e.ways() }
	e.Name = func(w emulatedWay) string { return w.schedule + "/" + w.checkpoint }
	e.Together = func(ctx context.Context, p emulatedProfile, round int) ([]*timed.ModelledStep, error) {
		var n timed.Network
		for _, w := range aloneWays {
			n.Alone = append(n.Alone, e.pipeline(p, w, 1))
		}
		for _, w := range e.ways() {
			n.Pipelines = append(n.Pipelines, e.pipeline(p, w, e.Spec.K))
		}
		return timed.BesideModel(ctx, []timed.Network{n}, round, p.Turns)
	}
	e.Show = e.show
	return e, nil
}

func (e *bubblesEmulated) Resolve() *lab.Problem {
	if len(e.Spec.Schedules) == 0 || e.Spec.Schedules[0] != schedule.GPipe.String() {
		return lab.At(errors.New("want gpipe first, whose memory all have"), "schedules")
	}
	for _, name := range lab.Profiles {
		p := e.Spec.Profiles[name]
		if p.Batch < p.M {
			return lab.At(fmt.Errorf("%d micro-batches of %d examples: want 1 to %d", p.M, p.Batch, p.Batch), "profiles", name, "m")
		}
		for _, s := range e.Spec.Schedules {
			if _, err := schedule.Place(s, e.Spec.K, 0, p.M); err != nil {
				return lab.At(err, "profiles", name, "m")
			}
		}
	}
	return nil
}

func (e *bubblesEmulated) Planned(name string) (list []lab.PlannedRun) {
	for _, w := range e.ways() {
		of := e.pipeline(e.Spec.Profiles[name], w, e.Spec.K)
		list = append(list, lab.PlannedRun{Path: []string{"profiles", name, "model"}, Run: of.Training(of.ProbeShape)})
	}
	return list
}

func (e *bubblesEmulated) ways() (all []emulatedWay) {
	for _, checkpoint := range e.Spec.Checkpoints {
		for _, s := range e.Spec.Schedules {
			all = append(all, emulatedWay{s, checkpoint})
		}
	}
	return all
}

// pipeline is the network on k devices, in a way.
func (e *bubblesEmulated) pipeline(p emulatedProfile, w emulatedWay, k int) timed.Pipeline {
	return timed.Pipeline{
		ProbeShape: simulate.ProbeShape{Model: p.Model, Batch: p.Batch, M: p.M, K: k},
		Calibrating: simulate.Calibrating{Name: "host", Optimizer: e.Spec.Optimizer, Threads: 1, Seed: e.Spec.Seed, Order: train.Setup{
			Schedule: lab.Named(schedule.Parse, w.schedule), Checkpoint: lab.Named(schedule.ParseCheckpoint, w.checkpoint),
		}},
	}
}

// fullest is the memory of a way's fullest device.
func fullest(c *emulatedRuns, w emulatedWay) int64 { return slices.Max(c.Of[w][0].Peak) }

func (e *bubblesEmulated) show(c *emulatedRuns) error {
	p := c.Profile
	c.Table.Caption = []string{
		fmt.Sprintf("%v in mini-batches of %d, K = %d, M = %d, %s, one thread a device, links free. Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians. Modelled: the same programs with the same pieces on a device calibrated in the same round. Medians of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", p.Model, p.Batch, e.Spec.K, p.M, e.Spec.Optimizer, p.Rounds),
		"By rates: each kind of operation by rates and an overhead that were fitted to other, smaller networks. By own operations: each operation by its time in the same network on one device, with B whole and in two, so the remaining error is that of the pipeline's model alone.",
		fmt.Sprintf("Fullest device: parameters, gradients, optimiser state and activations; memory is that of all devices as modelled, as planned and as reached. A ratio that is more than %v%% off is called noisy if its interval reaches within %[1]v%% and the emulated step's own interval is as far off its median.", e.Spec.Within),
	}
	timed.ShowModelled(c, timed.ModelledTable[emulatedWay]{
		Runs: e.ways(), Name: e.Name, Within: e.Spec.Within, Panel: "checkpoint", Group: "schedule",
		First: []timed.Column[emulatedWay]{
			timed.Text("schedule", func(w emulatedWay) any { return w.schedule }),
			timed.Text("checkpoint", func(w emulatedWay) any { return w.checkpoint }),
		},
		Added: []timed.Column[emulatedWay]{timed.Number("fullest device", func(w emulatedWay) any { return lab.Bytes(fullest(c, w)) })},
	})
	return nil
}
