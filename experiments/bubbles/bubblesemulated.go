package bubbles

import (
	"context"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
	"gpipebench/train"
)

// emulatedSpec is the spec of bubbles-emulated.
type emulatedSpec struct {
	timed.Profiled[emulatedProfile] `yaml:",inline"`
	K                               int      `yaml:"k" want:"2..64"`
	Optimizer                       string   `yaml:"optimizer" want:"optimizer"`
	Within                          float64  `yaml:"within" want:">0..1000"`                // of the emulated step, in percent
	Schedules                       []string `yaml:"schedules" want:"schedule,first=gpipe"` // the first has the memory that all have
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
type bubblesEmulated = timed.Compared[emulatedSpec, emulatedProfile, emulatedWay, timed.ModelledStep]

// emulatedWay is a schedule in a checkpoint mode.
type emulatedWay struct{ schedule, checkpoint string }

// aloneWays are those in which the network runs on one device: with B whole, and with I and W.
var aloneWays = []emulatedWay{{"gpipe", "always"}, {"zb-h1", "always"}}

func newBubblesEmulated() (lab.Experiment, error) {
	e := &bubblesEmulated{}
	s := &e.Spec
	e.Show = s.show
	e.Runs = func(emulatedProfile) []emulatedWay { return s.ways() }
	e.Training = func(p emulatedProfile, w emulatedWay) train.Training {
		of := s.pipeline(p, w, s.K)
		return of.Training(of.ProbeShape)
	}
	e.Name = func(w emulatedWay) string { return w.schedule + "/" + w.checkpoint }
	e.Together = func(ctx context.Context, p emulatedProfile, round int) ([]*timed.ModelledStep, error) {
		var n timed.Network
		for _, w := range aloneWays {
			n.Alone = append(n.Alone, s.pipeline(p, w, 1))
		}
		for _, w := range s.ways() {
			n.Pipelines = append(n.Pipelines, s.pipeline(p, w, s.K))
		}
		return timed.BesideModel(ctx, []timed.Network{n}, round, p.Turns)
	}
	return e, nil
}

func (e *emulatedSpec) ways() (all []emulatedWay) {
	for _, checkpoint := range e.Checkpoints {
		for _, s := range e.Schedules {
			all = append(all, emulatedWay{s, checkpoint})
		}
	}
	return all
}

// pipeline is the network on k devices, in a way.
func (e *emulatedSpec) pipeline(p emulatedProfile, w emulatedWay, k int) timed.Pipeline {
	return timed.Pipeline{
		ProbeShape: simulate.ProbeShape{Model: p.Model, Batch: p.Batch, M: p.M, K: k},
		Calibrating: simulate.Calibrating{Name: "host", Optimizer: e.Optimizer, Threads: 1, Seed: e.Seed, Order: train.Setup{
			Schedule: lab.Named(schedule.Parse, w.schedule), Checkpoint: lab.Named(schedule.ParseCheckpoint, w.checkpoint),
		}},
	}
}

func (e *emulatedSpec) show(c *timed.Comparison[emulatedProfile, emulatedWay, timed.ModelledStep]) (shown.Rows, error) {
	return timed.ModelledRows(c, e.ways(), e.Within, func(w emulatedWay) shown.Values {
		return shown.Values{"schedule": w.schedule, "checkpoint": w.checkpoint, "panel": "recomputation: " + w.checkpoint, "fullest": slices.Max(c.Of[w][0].Peak)}
	}), nil
}
