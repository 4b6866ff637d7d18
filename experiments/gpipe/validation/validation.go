// Package validation compares modelled devices with emulated ones.
package validation

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"gpipebench/experiments/machine"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/nn/graph"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "validation", Folder: folder, New: suite.New[Validation]}

func (v *Validation) Planned(profile string) (list []suite.PlannedRun) {
	for i, n := range v.Spec.Profiles[profile].Networks {
		for _, k := range v.Spec.K {
			t := simulation.Calibrating{Threads: 1, Optimizer: v.Spec.Optimizer}.Training(simulation.ProbeShape{Model: n.Model, Batch: n.Batch, M: n.M, K: k})
			list = append(list, suite.PlannedRun{Path: []string{"profiles", profile, "networks", fmt.Sprint(i)}, Run: t})
		}
	}
	return list
}

// validationSpec is spec.yaml.
type validationSpec struct {
	suite.Head `yaml:",inline"`
	K          []int   `yaml:"k" want:"2..1024"`
	Optimizer  string  `yaml:"optimizer" want:"optimizer"`
	Within     float64 `yaml:"within" want:">0..1000"` // of the emulated step, in percent

	Profiles map[string]validationProfile `yaml:"profiles"`
}

type validationProfile struct {
	Expected suite.Span          `yaml:"expected"`
	Networks []validationNetwork `yaml:"networks"`
	Rounds   int                 `yaml:"rounds" want:"1..1000"`
	Turns    int                 `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

type validationNetwork struct {
	Model workload.Model `yaml:"model"`
	Batch int            `yaml:"batch"`
	M     int            `yaml:"m"`
}

// Validation compares modelled devices of this machine's kind with emulated runs of
// the same networks.
type Validation struct {
	suite.Base[validationSpec]
}

func (v *Validation) Resolve() *suite.Problem {
	for _, name := range suite.Profiles {
		p := v.Spec.Profiles[name]
		models := map[string]bool{}
		for i, n := range p.Networks {
			where := []string{"profiles", name, "networks", fmt.Sprint(i)}
			if n.Batch < n.M {
				return suite.At(fmt.Errorf("%d micro-batches of %d examples: want 1 to %d", n.M, n.Batch, n.Batch), append(where, "m")...)
			}
			if models[n.Model.Name] { // samples go by it
				return suite.At(fmt.Errorf("a second %s: want each model once", n.Model.Name), append(where, "model")...)
			}
			models[n.Model.Name] = true
		}
	}
	return nil
}

func (v *Validation) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(v.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return &validationRounds{&v.Spec, p}, nil
}

func (v *Validation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := v.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	return rounds.InThisProcess(ctx, r, log, p)
}

// ValidationSample is one pipeline in one round: emulated, and modelled by what
// was calibrated in the same round.
type ValidationSample struct {
	Seconds      float64 `json:"seconds"` // of an emulated step whose tasks take the medians of their kinds
	Own          float64 `json:"own"`     // modelled by the network's own operations, timed on one device
	Rates        float64 `json:"rates"`   // modelled by rates and overheads from other networks
	Partition    []int   `json:"partition"`
	Peak         []int64 `json:"peak_bytes"`
	HighWater    []int64 `json:"high_water_bytes"`
	ModelledPeak []int64 `json:"modelled_peak_bytes"`
	Others       float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// sameMemory reports whether plan, run and model agree to the byte.
func (s *ValidationSample) sameMemory() bool {
	return slices.Equal(s.Peak, s.HighWater) && slices.Equal(s.Peak, s.ModelledPeak)
}

// validationRounds is the measurement of a profile.
type validationRounds struct {
	Spec    *validationSpec
	profile validationProfile
}

// sample names one of a round's.
func (n validationNetwork) sample(k, round int) string {
	return fmt.Sprintf("%s/K=%d/round=%d", n.Model.Name, k, round)
}

func (v *validationRounds) Samples() [][]string {
	rounds := make([][]string, v.profile.Rounds)
	for round := range rounds {
		for _, n := range v.profile.Networks {
			for _, k := range v.Spec.K {
				rounds[round] = append(rounds[round], n.sample(k, round))
			}
		}
	}
	return rounds
}

// validationRun is one pipeline, open.
type validationRun struct {
	network validationNetwork
	k       int
	on      *simulation.Probe
}

// Round measures all samples of a round, also those that the log has: they belong
// together. All pipelines are open at once and take turns, so that a change of the
// machine's speed affects the calibration and what it is compared with alike.
func (v *validationRounds) Round(ctx context.Context, round int, log *records.Log) (err error) {
	c := simulation.Calibrating{Name: "host", Optimizer: v.Spec.Optimizer, Threads: 1, Seed: v.Spec.Seed}
	host, err := c.Open(ctx, simulation.ProbeShapes)
	if err != nil {
		return err
	}
	defer host.Close()
	runs, err := v.open(ctx, c)
	defer func() {
		for _, r := range runs {
			r.on.Close()
		}
	}()
	if err != nil {
		return err
	}
	meter := machine.StartMeter()
	for turn := range v.profile.Turns + 1 {
		timed := turn > 0 // the first warms up
		if err := host.Turn(ctx, timed); err != nil {
			return err
		}
		for i := range runs {
			r := runs[(i+round)%len(runs)]
			step := r.on.Unwatched
			if r.k == 1 {
				step = r.on.Watched
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
	for _, r := range runs {
		if r.k == 1 {
			own = r.on.Shapes(rates)
			continue
		}
		s, err := r.sample(rates, own)
		if err != nil {
			return err
		}
		s.Others = others
		if name := r.network.sample(r.k, round); !log.Has(name) {
			if err := log.Add(name, v.Spec.Seed, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens each network on one device and then on several. With an error it returns
// the runs that are open.
func (v *validationRounds) open(ctx context.Context, c simulation.Calibrating) (runs []*validationRun, err error) {
	for _, n := range v.profile.Networks {
		for _, k := range append([]int{1}, v.Spec.K...) {
			on, err := c.OpenProbe(ctx, simulation.ProbeShape{Model: n.Model, Batch: n.Batch, M: n.M, K: k})
			if err != nil {
				return runs, fmt.Errorf("%s, K=%d: %w", n.Model.Name, k, err)
			}
			runs = append(runs, &validationRun{network: n, k: k, on: on})
		}
	}
	return runs, nil
}

// sample reduces a run's round to its sample.
func (r *validationRun) sample(rates, own *accelerator.Accelerator) (*ValidationSample, error) {
	s := &ValidationSample{}
	var samples gpipe.Samples
	for _, t := range r.on.Times {
		samples.Add(t)
	}
	tl, err := samples.Median(gpipe.MicroBatchSizes(r.network.Batch, r.network.M)).Replay()
	if err != nil {
		return nil, err
	}
	s.Seconds = tl.Span()
	s.Partition, _ = r.on.Trainer.Sizes()
	s.Peak, s.HighWater = r.on.Memory()
	sim, err := r.modelled(rates)
	if err != nil {
		return nil, err
	}
	s.Rates = sim.Seconds
	for _, d := range sim.Devices {
		s.ModelledPeak = append(s.ModelledPeak, d.PeakBytes)
	}
	if sim, err = r.modelled(own); err == nil {
		s.Own = sim.Seconds
	}
	return s, err
}

// modelled is the run's step on modelled devices, with the same partition.
func (r *validationRun) modelled(host *accelerator.Accelerator) (*gpipe.Simulation, error) {
	p := r.on.Pipeline
	p.Balance, _ = r.on.Trainer.Sizes()
	p.Devices = []gpipe.Device{{Kind: gpipe.Modelled, Threads: 1, Accelerator: host, Capacity: host.Memory, Link: host.Link}}
	return p.Simulate(r.network.Model.Input(r.network.Batch), gpipe.Modelling{DType: graph.F32, Accounting: gpipe.FullAccounting})
}
