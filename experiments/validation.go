package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/nn/graph"
)

// validationSpec is validation.yaml.
type validationSpec struct {
	head      `yaml:",inline"`
	K         []int   `yaml:"k" want:"2..1024"`
	Optimizer string  `yaml:"optimizer" want:"optimizer"`
	Within    float64 `yaml:"within" want:">0..1000"` // of the emulated step, in percent

	Profiles map[string]validationProfile `yaml:"profiles"`
}

type validationProfile struct {
	Expected span                `yaml:"expected"`
	Networks []validationNetwork `yaml:"networks"`
	Rounds   int                 `yaml:"rounds" want:"1..1000"`
	Turns    int                 `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

type validationNetwork struct {
	Model Model `yaml:"model"`
	Batch int   `yaml:"batch"`
	M     int   `yaml:"m"`
}

// validation holds modelled devices of this machine's kind against emulated runs
// of the same networks.
type validation struct {
	spec validationSpec
	text string
}

func loadValidation(from ...SpecFile) (Experiment, error) {
	v := &validation{}
	var err error
	v.text, err = loadSpec("validation.yaml", from, &v.spec, v.check)
	return v, err
}

func (v *validation) check() *specProblem {
	if p := checkProfiles(v.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := v.spec.Profiles[name]
		models := map[string]bool{}
		for i, n := range p.Networks {
			where := []string{"profiles", name, "networks", fmt.Sprint(i)}
			if n.Batch < n.M {
				return at(fmt.Errorf("%d micro-batches of %d examples: want 1 to %d", n.M, n.Batch, n.Batch), append(where, "m")...)
			}
			if models[n.Model.Name] { // samples go by it
				return at(fmt.Errorf("a second %s: want each model once", n.Model.Name), append(where, "model")...)
			}
			models[n.Model.Name] = true
		}
	}
	return nil
}

func (v *validation) ID() string    { return v.spec.Experiment }
func (v *validation) Title() string { return v.spec.Title }

func (v *validation) Expected(profile string) time.Duration {
	return time.Duration(v.spec.Profiles[profile].Expected)
}

func (v *validation) Key(profile string) Key {
	return key(v.ID(), profile, v.text)
}

func (v *validation) repeated(profile string) (repeated, error) {
	p, err := profileOf(v.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return &validationRounds{&v.spec, p}, nil
}

func (v *validation) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := v.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	return inThisProcess(ctx, r, log, p)
}

// validationSample is one pipeline in one round: emulated, and modelled by what
// was calibrated in the same round.
type validationSample struct {
	Seconds      float64 `json:"seconds"` // of an emulated step whose tasks take the medians of their kinds
	Own          float64 `json:"own"`     // modelled by the network's own operations, timed on one device
	Rates        float64 `json:"rates"`   // modelled by rates and overheads from other networks
	Partition    []int   `json:"partition"`
	Peak         []int64 `json:"peak_bytes"`
	HighWater    []int64 `json:"high_water_bytes"`
	ModelledPeak []int64 `json:"modelled_peak_bytes"`
	Others       float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// sameMemory tells whether plan, run and model agree to the byte.
func (s *validationSample) sameMemory() bool {
	return slices.Equal(s.Peak, s.HighWater) && slices.Equal(s.Peak, s.ModelledPeak)
}

// validationRounds is the measurement of a profile.
type validationRounds struct {
	spec    *validationSpec
	profile validationProfile
}

// sample names one of a round's.
func (n validationNetwork) sample(k, round int) string {
	return fmt.Sprintf("%s/K=%d/round=%d", n.Model.Name, k, round)
}

func (v *validationRounds) samples() [][]string {
	rounds := make([][]string, v.profile.Rounds)
	for round := range rounds {
		for _, n := range v.profile.Networks {
			for _, k := range v.spec.K {
				rounds[round] = append(rounds[round], n.sample(k, round))
			}
		}
	}
	return rounds
}

// validationRun is one pipeline, open.
type validationRun struct {
	network  validationNetwork
	k        int
	on       *openProbe
	pipeline gpipe.Pipeline
}

func (r *validationRun) close() { r.on.trainer.Close() }

// round measures all of a round: its samples belong together. Everything is open
// at once and takes turns, so that a change of the machine's pace hits the
// calibration and what it is held against alike.
func (v *validationRounds) round(ctx context.Context, round int, log *Log) (err error) {
	c := Calibrating{Name: "host", Optimizer: v.spec.Optimizer, Threads: 1, Seed: v.spec.Seed}
	host, err := c.open(ctx, calibrationProbes)
	if err != nil {
		return err
	}
	defer host.close()
	runs, err := v.open(ctx, c)
	defer func() {
		for _, r := range runs {
			r.close()
		}
	}()
	if err != nil {
		return err
	}
	meter := startMeter()
	for turn := range v.profile.Turns + 1 {
		timed := turn > 0 // the first warms up
		if err := host.turn(ctx, timed); err != nil {
			return err
		}
		for i := range runs {
			r := runs[(i+round)%len(runs)]
			step := r.on.unwatched
			if r.k == 1 {
				step = r.on.step
			}
			if err := step(ctx, timed); err != nil {
				return err
			}
		}
	}
	others := meter.others()
	rates, err := host.host()
	if err != nil {
		return err
	}
	var own *accelerator.Accelerator
	for _, r := range runs {
		if r.k == 1 {
			own = r.on.shapes(rates)
			continue
		}
		s, err := r.sample(rates, own)
		if err != nil {
			return err
		}
		s.Others = others
		if name := r.network.sample(r.k, round); !log.Has(name) {
			if err := log.Add(name, v.spec.Seed, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens each network on one device and then on several; what is open
// already is returned with an error.
func (v *validationRounds) open(ctx context.Context, c Calibrating) (runs []*validationRun, err error) {
	for _, n := range v.profile.Networks {
		for _, k := range append([]int{1}, v.spec.K...) {
			on, p, err := c.openProbe(ctx, calibrationProbe{n.Model, n.Batch, n.M, k})
			if err != nil {
				return runs, fmt.Errorf("%s, K=%d: %w", n.Model.Name, k, err)
			}
			runs = append(runs, &validationRun{network: n, k: k, on: on, pipeline: p})
		}
	}
	return runs, nil
}

// sample is what a round tells of a run.
func (r *validationRun) sample(rates, own *accelerator.Accelerator) (*validationSample, error) {
	s := &validationSample{}
	var samples gpipe.Samples
	for _, t := range r.on.times {
		samples.Add(t)
	}
	tl, err := samples.Median(gpipe.MicroBatchSizes(r.network.Batch, r.network.M)).Replay()
	if err != nil {
		return nil, err
	}
	s.Seconds = tl.Span()
	s.Partition, _ = r.on.trainer.Sizes()
	s.Peak, s.HighWater = memoryOf(r.on.trainer)
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
	p := r.pipeline
	p.Balance, _ = r.on.trainer.Sizes()
	p.Devices = []gpipe.Device{{Kind: gpipe.Modelled, Threads: 1, Accelerator: host, Capacity: host.Memory, Link: host.Link}}
	return p.Simulate(r.network.Model.Input(r.network.Batch), gpipe.Modelling{DType: graph.F32, Accounting: gpipe.FullAccounting})
}
