// Package samebits runs trainings in many ways that must end with the same bits, and compares
// the weights. An experiment on it is a spec.
package samebits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	// DType is the type of the activations of all runs, which decides the bits; none: f32.
	DType    string          `yaml:"dtype" want:"dtype,optional"`
	Groups   []network       `yaml:"groups"`
	Profiles map[string]size `yaml:"profiles"`
}

// network is one training and the ways in which it is run.
type network struct {
	Name     string           `yaml:"name" want:"name,key"`
	Title    string           `yaml:"title"`
	Training lab.TrainingSpec `yaml:"training"`
	Evaluate bool             `yaml:"evaluate"`
	// EachM is for networks with batch norm, which normalises each micro-batch by
	// itself: runs of one M are equal, those of another M are not.
	EachM bool `yaml:"each_m"`
	// G is the number of groups of every run, which decides the bits; 0: one for each
	// replica.
	G int `yaml:"g" want:"0..65536"`
	// Scope is batch norm's, of every run, which decides the bits as well.
	Scope string `yaml:"bn_scope" want:"scope,optional"`
	Cover *struct {
		R           []int    `yaml:"r" want:"1..65536,optional"` // none: one
		K           []int    `yaml:"k" want:"1..1024"`
		M           []int    `yaml:"m" want:"1..65536"`
		Schedule    []string `yaml:"schedule" want:"schedule"`
		Checkpoint  []string `yaml:"checkpoint" want:"checkpoint"`
		Late        []bool   `yaml:"late_recompute"`
		Device      []string `yaml:"device" want:"device"`
		Threads     []int    `yaml:"threads" want:"1..1024"`
		Partitioner []string `yaml:"partitioner" want:"partitioner"`
		Fine        []bool   `yaml:"fine"`
		Shard       []bool   `yaml:"shard_update" want:"optional"`  // none: false
		Spatial     []int    `yaml:"spatial" want:"1..64,optional"` // none: one
	} `yaml:"cover"`
	Runs []Way `yaml:"runs" want:"optional"`

	dtype string // of the spec
}

// Way is one way to run a training.
type Way struct {
	lab.SetupSpec `yaml:",inline"`
	Fine          bool `yaml:"fine"`
}

type size struct {
	Expected lab.Span       `yaml:"expected" want:"shown"`
	Steps    map[string]int `yaml:"steps" want:"1..1000000"` // by group
}

// Experiment trains the same networks in many ways and compares the weights.
type Experiment struct {
	lab.Base[spec]
}

func (x *Experiment) Resolve() *lab.Problem {
	for i, g := range x.Spec.Groups {
		group := fmt.Sprint(i)
		x.Spec.Groups[i].dtype = x.Spec.DType
		if (g.Cover == nil) == (len(g.Runs) == 0) {
			return lab.At(errors.New("want either cover or runs"), "groups", group)
		}
		if g.EachM && g.Cover == nil {
			return lab.At(errors.New("want a cover, for something to compare at each M"), "groups", group, "each_m")
		}
		for _, name := range lab.Profiles {
			if x.Spec.Profiles[name].Steps[g.Name] < 1 {
				return lab.At(fmt.Errorf("no steps for group %s: want 1 or more", g.Name), "profiles", name, "steps")
			}
		}
	}
	return nil
}

// Ways lists the runs; the first, or the first of the same M if only those are
// equal, is what the others are compared with.
func (g *network) Ways() []Way {
	runs := g.covered()
	for i := range runs {
		runs[i].DType = cmp.Or(runs[i].DType, g.dtype)
	}
	return runs
}

// covered lists the runs as the network describes them.
func (g *network) covered() []Way {
	c := g.Cover
	if c == nil {
		return slices.Clone(g.Runs)
	}
	replicas, shard := c.R, c.Shard
	if len(replicas) == 0 {
		replicas = []int{0}
	}
	if len(shard) == 0 {
		shard = []bool{false}
	}
	ms := []int{1}
	if g.EachM {
		ms = c.M
	}
	var runs []Way
	for _, m := range ms {
		runs = append(runs, Way{SetupSpec: lab.SetupSpec{
			K: 1, M: m, R: replicas[0], G: g.G, Scope: g.Scope, Schedule: "gpipe", Checkpoint: "never", Device: "host", Threads: 1, Partitioner: "min-max",
		}})
	}
	levels := []int{
		len(c.K), len(c.M), len(c.Schedule), len(c.Checkpoint), len(c.Late), len(c.Device), len(c.Threads), len(c.Partitioner), len(c.Fine), len(replicas), len(shard),
	}
	if c.Spatial != nil {
		levels = append(levels, len(c.Spatial))
	}
	for _, row := range stats.CoverPairs(levels) {
		run := Way{
			SetupSpec: lab.SetupSpec{
				R: replicas[row[9]], G: g.G, Scope: g.Scope, Shard: shard[row[10]],
				K: c.K[row[0]], M: c.M[row[1]], Schedule: c.Schedule[row[2]], Checkpoint: c.Checkpoint[row[3]],
				Late: c.Late[row[4]], Device: c.Device[row[5]], Threads: c.Threads[row[6]], Partitioner: c.Partitioner[row[7]],
			},
			Fine: c.Fine[row[8]],
		}
		if c.Spatial != nil {
			run.Spatial = c.Spatial[row[11]]
		}
		runs = append(runs, run)
	}
	return runs
}

// String is the configuration in words.
func (r Way) String() string {
	text := fmt.Sprintf("K=%d M=%d %s %s", max(r.K, 1), max(r.M, 1), cmp.Or(r.Schedule, "gpipe"), cmp.Or(r.Checkpoint, "always"))
	if r.grouped() {
		text = fmt.Sprintf("R=%d G=%d ", max(r.R, 1), max(r.G, r.R, 1)) + text
	}
	if r.Late {
		text += " late"
	}
	text += fmt.Sprintf(" %s %d thread", cmp.Or(r.Device, "host"), max(r.Threads, 1))
	if r.Threads > 1 {
		text += "s"
	}
	if r.K > 1 {
		text += " " + cmp.Or(r.Partitioner, "min-max")
		if r.Fine {
			text += " fine"
		}
	}
	if r.Shard {
		text += " divided update"
	}
	if r.Spatial > 1 {
		text += fmt.Sprintf(", images in %d parts", r.Spatial)
	}
	if r.Scope != "" {
		text += ", batch norm over " + r.Scope
	}
	if r.DType != "" {
		text += " " + r.DType
	}
	return text
}

// grouped reports whether there may be more groups or replicas than one.
func (r Way) grouped() bool { return max(r.R, r.G) > 1 }

// Record is one run.
type Record struct {
	Run       Way               `json:"run"`
	Steps     int               `json:"steps"`
	Losses    []float64         `json:"losses"`
	Initial   string            `json:"initial_sha256"`
	SHA256    string            `json:"weights_sha256"`
	Partition []int             `json:"partition"`
	Peak      []int64           `json:"peak_bytes"` // of all parts, and then of all devices
	HighWater []int64           `json:"high_water_bytes"`
	Eval      *train.Evaluation `json:"eval,omitempty"`
	Floor     float64           `json:"floor,omitempty"` // nats
}

// Check requires a loss a step, both hashes, and memory planned and used of each device.
func (s *Record) Check() error {
	switch {
	case s.Steps < 1 || len(s.Losses) != s.Steps:
		return fmt.Errorf("%d losses of %d steps", len(s.Losses), s.Steps)
	case len(s.Peak) != len(s.HighWater):
		return fmt.Errorf("memory planned of %d devices and used of %d", len(s.Peak), len(s.HighWater))
	}
	return errors.Join(records.CheckHash("initial_sha256", s.Initial), records.CheckHash("weights_sha256", s.SHA256))
}

// SampleName names a network's run.
func SampleName(network string, i int) string { return fmt.Sprintf("%s/run=%d", network, i) }

func (x *Experiment) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range x.Spec.Groups {
		g := &x.Spec.Groups[i]
		var jobs []lab.Job
		for j, run := range g.Ways() {
			jobs = append(jobs, lab.Job{Sample: SampleName(g.Name, j), Seed: x.Spec.Seed, Make: func(ctx context.Context) (any, string, error) {
				s, err := g.measure(ctx, run, profile.Steps[g.Name], x.Spec.Seed)
				if err != nil {
					return nil, "", fmt.Errorf("%s, %s, %v: %w", x.ID(), g.Name, run, err)
				}
				return s, fmt.Sprintf("%.10s  %v", s.SHA256, run), nil
			}})
		}
		ways := len(jobs)
		if jobs = lab.Missing(log, jobs); len(jobs) == 0 {
			continue
		}
		p.Begin(fmt.Sprintf("%s, %s: %d steps in each of %d ways", x.ID(), g.Name, profile.Steps[g.Name], ways), len(jobs))
		err := lab.Beside(ctx, log, p, jobs)
		p.End()
		if err != nil {
			return err
		}
	}
	return nil
}

// training returns the training of one way.
func (g *network) training(r Way, steps int, seed uint64) train.Training {
	t := g.Training.Training("synthetic", r.Setup(), seed)
	t.Model.Fine = r.Fine
	t.Steps = steps
	return t
}

// measure trains in one way.
func (g *network) measure(ctx context.Context, r Way, steps int, seed uint64) (*Record, error) {
	res, err := g.training(r, steps, seed).Run(ctx, nil)
	if err != nil {
		return nil, err
	}
	s := &Record{
		Run: r, Steps: steps, Losses: res.Losses, Initial: res.InitialSHA256, SHA256: res.WeightsSHA256,
		Partition: res.Partition, Peak: res.PeakBytes, HighWater: res.HighWaterBytes,
	}
	if res.Parts != nil {
		s.Peak, s.HighWater = slices.Concat(append(res.Parts.Peak, s.Peak)...), slices.Concat(append(res.Parts.HighWater, s.HighWater)...)
	}
	if g.Evaluate {
		s.Eval = res.Eval
		for _, y := range res.Yardsticks {
			if y.Floor {
				s.Floor = y.Loss
			}
		}
	}
	return s, nil
}

func (x *Experiment) Report(log, reference *records.Log) (*lab.Report, error) {
	id := x.ID()
	networks := x.networksTable()
	total, different, moved := 0, 0, true
	var planned, used int64
	exact, unexpected := true, false
	for i := range x.Spec.Groups {
		g := &x.Spec.Groups[i]
		networks.Caption = append(networks.Caption, fmt.Sprintf("%s: %s.", g.Name, g.Title))
		tried := &covered{}
		var first *Record
		firsts := map[int]*Record{} // by M, or all at 0
		for j := range g.Ways() {
			s := &Record{}
			if err := log.Get(SampleName(g.Name, j), s); err != nil {
				return nil, err
			}
			m := 0
			if g.EachM {
				m = s.Run.M
			}
			switch other := firsts[m]; {
			case other == nil:
				firsts[m] = s
			case s.SHA256 != other.SHA256 || !slices.Equal(s.Losses, other.Losses):
				different++
				tried.different++
			}
			tried.runs = append(tried.runs, s)
			first = cmp.Or(first, s)
			moved = moved && s.SHA256 != s.Initial
			for k := range s.Peak {
				planned, used = planned+s.Peak[k], used+s.HighWater[k]
			}
			exact = exact && slices.Equal(s.Peak, s.HighWater)
			total++
		}
		networks.Add(tried.row(x, g.Name)...)
		if g.EachM {
			note, apart := apart(g.Name, firsts)
			networks.Notes = append(networks.Notes, note)
			unexpected = unexpected || !apart
		}
		if reference != nil {
			var ref Record
			if err := reference.Get(SampleName(g.Name, 0), &ref); err == nil && ref.Steps == first.Steps {
				same := "different"
				if ref.SHA256 == first.SHA256 {
					same = "the same"
				}
				networks.Notes = append(networks.Notes, fmt.Sprintf("Reference, %s: %s (%s kernels); the hash here is %s.",
					g.Name, ref.SHA256[:16], reference.Session.Machine.Kernels, same))
			}
		}
	}
	all := make([]lab.Value, len(networks.Columns)-3) // of ways
	networks.Add("all", total, different, all)
	r := &lab.Report{Tables: []*lab.Table{networks}}
	verdict := fmt.Sprintf("all %d runs agree to the bit, in every weight and every loss, with the first run of their network (with batch norm: of their network and M).", total)
	fails := func(reason, says string) {
		verdict, r.Verdict = says, errors.New(id+": "+reason)
	}
	switch {
	case different > 0:
		fails(fmt.Sprintf("%d of %d runs differ from the first run of their network", different, total), fmt.Sprintf("%d of %d runs DIFFER from the first run of their network.", different, total))
	case !moved:
		fails("a run ended with the weights that it began with", "a run ends with its initial weights; nothing was trained.")
	case unexpected:
		fails("a network with batch norm has the same weights at two values of M", "a network with batch norm has the same weights at two values of M; micro-batches were not normalised separately.")
	case !exact:
		fails("a device did not use exactly the planned memory", verdict)
	}
	equal := "on each device, used and planned memory are equal to the byte."
	if !exact {
		equal = "on some devices, used and planned memory DIFFER."
	}
	networks.Notes = append([]string{
		"Verdict: " + verdict,
		fmt.Sprintf("Memory: %s used of %s planned, summed over all devices of all runs; %s", units.FormatBytes(used), units.FormatBytes(planned), equal),
	}, networks.Notes...)
	return r, nil
}

// apart reports how many hashes the values of M have, and whether all differ.
func apart(network string, firsts map[int]*Record) (note string, all bool) {
	hashes := map[string]bool{}
	var ms []string
	for _, m := range slices.Sorted(maps.Keys(firsts)) {
		hashes[firsts[m].SHA256] = true
		ms = append(ms, fmt.Sprint(m))
	}
	return fmt.Sprintf("%s: one hash at each M, %d in all for M = %s, because batch norm normalises each micro-batch separately. The moving statistics of batch norm are part of the hash.",
		network, len(hashes), strings.Join(ms, ", ")), len(hashes) == len(firsts)
}

func (x *Experiment) Planned(profile string) (list []lab.PlannedRun) {
	for i := range x.Spec.Groups {
		g := &x.Spec.Groups[i]
		for j, r := range g.Ways() {
			path := []string{"groups", fmt.Sprint(i), "runs", fmt.Sprint(j)}
			if g.Cover != nil {
				path = []string{"groups", fmt.Sprint(i), "cover"}
			}
			list = append(list, lab.PlannedRun{Path: path, Run: g.training(r, x.Spec.Profiles[profile].Steps[g.Name], x.Spec.Seed)})
		}
	}
	return list
}

func init() { lab.RegisterKind("same bits", func() lab.Experiment { return new(Experiment) }) }
