// Package validation compares modelled devices with emulated ones.
package validation

import (
	"context"
	"embed"
	"fmt"

	"gpipebench/gpipe/accelerator"
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

var Definition = lab.Definition{ID: "validation", Folder: folder, New: lab.New[validation]}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	K         []int   `yaml:"k" want:"2..1024"`
	Optimizer string  `yaml:"optimizer" want:"optimizer"`
	Within    float64 `yaml:"within" want:">0..1000"` // of the emulated step, in percent

	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span  `yaml:"expected" want:"shown"`
	Networks []network `yaml:"networks"`
	Rounds   int       `yaml:"rounds" want:"1..1000"`
	Turns    int       `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

type network struct {
	Model train.Model `yaml:"model"`
	Batch int         `yaml:"batch"`
	M     int         `yaml:"m"`
}

// on is a pipeline of the network.
func (n network) on(k int) simulate.ProbeShape {
	return simulate.ProbeShape{Model: n.Model, Batch: n.Batch, M: n.M, K: k}
}

// validation compares modelled devices of this machine's kind with emulated runs of
// the same networks.
type validation struct {
	lab.Base[spec]
}

func (v *validation) Resolve() *lab.Problem {
	for _, name := range lab.Profiles {
		models := map[string]bool{}
		for i, n := range v.Spec.Profiles[name].Networks {
			where := []string{"profiles", name, "networks", fmt.Sprint(i)}
			if n.Batch < n.M {
				return lab.At(fmt.Errorf("%d micro-batches of %d examples: want 1 to %d", n.M, n.Batch, n.Batch), append(where, "m")...)
			}
			if models[n.Model.Name] { // samples have its name
				return lab.At(fmt.Errorf("a second %s: want each model once", n.Model.Name), append(where, "model")...)
			}
			models[n.Model.Name] = true
		}
	}
	return nil
}

func (v *validation) Planned(profile string) (list []lab.PlannedRun) {
	for i, n := range v.Spec.Profiles[profile].Networks {
		for _, k := range v.Spec.K {
			t := simulate.Calibrating{Threads: 1, Optimizer: v.Spec.Optimizer}.Training(n.on(k))
			list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "networks", fmt.Sprint(i)}, Run: t})
		}
	}
	return list
}

func (v *validation) Repeated(profile string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(v.Spec.Profiles, profile)
	return &measurement{&v.Spec, p}, err
}

func (v *validation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, v, log, p)
}

// Sample is one pipeline in one round: emulated, and modelled by what
// was calibrated in the same round.
type Sample struct {
	simulate.Compared
	Others float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// measurement is that of a profile.
type measurement struct {
	*spec
	profile
}

// sampleName is that of a pipeline in a round.
func sampleName(p simulate.ProbeShape, round int) string {
	return fmt.Sprintf("%s/K=%d/round=%d", p.Model.Name, p.K, round)
}

func (m *measurement) Samples() [][]string {
	names := make([][]string, m.Rounds)
	for round := range names {
		for _, n := range m.Networks {
			for _, k := range m.K {
				names[round] = append(names[round], sampleName(n.on(k), round))
			}
		}
	}
	return names
}

// Round measures all samples of a round, also those that the log has: they belong
// together. All pipelines are open at once and take turns, so that a change of the
// machine's speed affects the calibration and what it is compared with alike.
func (m *measurement) Round(ctx context.Context, round int, log *records.Log) (err error) {
	c := simulate.Calibrating{Name: "host", Optimizer: m.Optimizer, Threads: 1, Seed: m.Seed}
	host, err := c.Open(ctx, simulate.ProbeShapes)
	if err != nil {
		return err
	}
	defer host.Close()
	var probes []*simulate.Probe // of each network on one device and then on several
	defer func() {
		for _, p := range probes {
			p.Close()
		}
	}()
	for _, n := range m.Networks {
		for _, k := range append([]int{1}, m.K...) {
			p, err := c.OpenProbe(ctx, n.on(k))
			if err != nil {
				return fmt.Errorf("%s, K=%d: %w", n.Model.Name, k, err)
			}
			probes = append(probes, p)
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
	var own *accelerator.Accelerator
	for _, p := range probes {
		if p.Shape.K == 1 {
			own = p.Shapes(rates)
			continue
		}
		of, err := p.Compare(rates, own)
		if err != nil {
			return err
		}
		if name := sampleName(p.Shape, round); !log.Has(name) {
			if err := log.Add(name, m.Seed, Sample{*of, others}); err != nil {
				return err
			}
		}
	}
	return nil
}
