// Package emulated times schedules on emulated devices of equal memory, and compares
// modelled devices with them.
package emulated

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "bubbles-emulated", Folder: folder, New: lab.New[emulated]}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	K           int      `yaml:"k" want:"2..64"`
	Optimizer   string   `yaml:"optimizer" want:"optimizer"`
	Within      float64  `yaml:"within" want:">0..1000"` // of the emulated step, in percent
	Schedules   []string `yaml:"schedules" want:"schedule"`
	Checkpoints []string `yaml:"checkpoints" want:"checkpoint"`

	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Model    train.Model `yaml:"model"`
	Batch    int         `yaml:"batch" want:"1..65536"`
	M        int         `yaml:"m" want:"1..1024"`
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Turns    int         `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

type emulated struct {
	lab.Base[spec]
}

func (e *emulated) Resolve() *lab.Problem {
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

func (e *emulated) Planned(name string) (list []lab.PlannedRun) {
	m := &measurement{&e.Spec, e.Spec.Profiles[name]}
	for _, way := range m.ways() {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", name, "model"}, Run: m.calibrating(way).Training(m.shape(m.K))})
	}
	return list
}

func (e *emulated) Repeated(name string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, name)
	return &measurement{&e.Spec, p}, err
}

func (e *emulated) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, e, log, p)
}

// way is a schedule in a checkpoint mode.
type way struct{ schedule, checkpoint string }

func (w way) String() string { return w.schedule + "/" + w.checkpoint }

// Sample is a way in one round: emulated, and modelled by what was calibrated in the same
// round.
type Sample struct {
	simulate.Compared
	Others float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// measurement is that of a profile.
type measurement struct {
	*spec
	profile
}

func (m *measurement) ways() (all []way) {
	for _, checkpoint := range m.Checkpoints {
		for _, s := range m.Schedules {
			all = append(all, way{s, checkpoint})
		}
	}
	return all
}

func sampleName(w way, round int) string { return fmt.Sprintf("%v/round=%d", w, round) }

func (m *measurement) Samples() [][]string {
	names := make([][]string, m.Rounds)
	for round := range names {
		for _, w := range m.ways() {
			names[round] = append(names[round], sampleName(w, round))
		}
	}
	return names
}

// shape is the network on k devices.
func (m *measurement) shape(k int) simulate.ProbeShape {
	return simulate.ProbeShape{Model: m.Model, Batch: m.Batch, M: m.M, K: k}
}

// calibrating opens pipelines that run in a way.
func (m *measurement) calibrating(w way) simulate.Calibrating {
	return simulate.Calibrating{Name: "host", Optimizer: m.Optimizer, Threads: 1, Seed: m.Seed, Order: train.Setup{
		Schedule: lab.Named(schedule.Parse, w.schedule), Checkpoint: lab.Named(schedule.ParseCheckpoint, w.checkpoint),
	}}
}

// alone are the ways in which the network runs on one device, where its operations are
// timed: with B whole, and with I and W.
var alone = []way{{"gpipe", "always"}, {"zb-h1", "always"}}

// Round measures all samples of a round, also those that the log has: they belong
// together. All pipelines are open at once and take turns, so that a change of the
// machine's speed affects the calibration and what it is compared with alike.
func (m *measurement) Round(ctx context.Context, round int, log *records.Log) (err error) {
	host, err := m.calibrating(alone[0]).Open(ctx, simulate.ProbeShapes)
	if err != nil {
		return err
	}
	defer host.Close()
	var probes []*simulate.Probe // those of one device, and then those of the ways
	defer func() {
		for _, p := range probes {
			p.Close()
		}
	}()
	open := func(w way, k int) error {
		p, err := m.calibrating(w).OpenProbe(ctx, m.shape(k))
		if err != nil {
			return fmt.Errorf("%v, K=%d: %w", w, k, err)
		}
		probes = append(probes, p)
		return nil
	}
	for _, w := range alone {
		if err := open(w, 1); err != nil {
			return err
		}
	}
	for _, w := range m.ways() {
		if err := open(w, m.K); err != nil {
			return err
		}
	}
	meter := machine.StartMeter()
	for turn := range m.Turns + 1 {
		timed := turn > 0 // the first warms up
		if err := host.Turn(ctx, timed); err != nil {
			return err
		}
		for i := range probes {
			p := probes[(i+round)%len(probes)]
			step := p.Unwatched
			if p.Shape.K == 1 {
				step = p.Watched
			}
			if err := step(ctx, timed); err != nil {
				return err
			}
		}
	}
	others := meter.Others()
	rates, err := host.Host()
	if err != nil {
		return err
	}
	own := simulate.ShapesOf(rates, probes[:len(alone)]...)
	for i, w := range m.ways() {
		of, err := probes[len(alone)+i].Compare(rates, own)
		if err != nil {
			return err
		}
		if name := sampleName(w, round); !log.Has(name) {
			if err := log.Add(name, m.Seed, Sample{*of, others}); err != nil {
				return err
			}
		}
	}
	return nil
}
