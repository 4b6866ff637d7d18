package beyond

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/place"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// processesSpec is the spec of processes.
type processesSpec struct {
	lab.Head  `yaml:",inline"`
	Networks  []string                    `yaml:"networks" want:"network"`
	Processes []int                       `yaml:"processes" want:"2..64"`
	Trainings []dividedTraining           `yaml:"trainings"`
	Profiles  map[string]processesProfile `yaml:"profiles"`
}

// dividedTraining is one whose weights must be the same however it is divided.
type dividedTraining struct {
	Name      string        `yaml:"name" want:"name,key"`
	Title     string        `yaml:"title" want:"shown"`
	Model     train.Model   `yaml:"model"`
	Batch     int           `yaml:"batch" want:"1..65536"`
	Optimizer string        `yaml:"optimizer" want:"optimizer"`
	LR        float64       `yaml:"lr" want:">0.."`
	ClipNorm  float64       `yaml:"clip_norm" want:">0.."`
	G         int           `yaml:"g" want:"1..65536"`
	M         int           `yaml:"m" want:"1..65536"` // of each group
	Scope     string        `yaml:"bn_scope" want:"scope,optional"`
	Shapes    []deviceShape `yaml:"shapes"`
}

// deviceShape is how many devices a training has.
type deviceShape struct {
	K     int  `yaml:"k" json:"k" want:"1..64"`
	R     int  `yaml:"r" json:"r" want:"1..64"`
	Shard bool `yaml:"shard_update" json:"shard_update,omitempty"`
}

type processesProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Steps    int      `yaml:"steps" want:"1..100000"`
}

// dividedWay is how a training is run: its devices, and how they are divided over processes.
type dividedWay struct {
	deviceShape
	Processes int    `json:"processes"`
	Network   string `json:"network,omitempty"` // "": one process
	Spread    string `json:"spread,omitempty"`  // the order in which processes get devices; "": one process
}

// processes trains in several ways and compares weights, and bytes with the plan.
type processes struct {
	lab.Base[processesSpec]
	cluster.Program
}

func (x *processes) Resolve() *lab.Problem {
	for i, t := range x.Spec.Trainings {
		if !slices.ContainsFunc(x.Spec.ways(&t), func(w dividedWay) bool { return w.Processes > 1 }) {
			return lab.At(errors.New("no shape has a device for each of several processes: want one"), "trainings", fmt.Sprint(i), "shapes")
		}
	}
	return nil
}

// ways returns the ways of a training, first in one process.
func (s *processesSpec) ways(t *dividedTraining) (all []dividedWay) {
	for _, of := range t.Shapes {
		all = append(all, dividedWay{deviceShape: of, Processes: 1})
	}
	for _, of := range t.Shapes {
		for _, n := range s.Processes {
			for _, spread := range spreads(of, n) {
				for _, network := range s.Networks {
					all = append(all, dividedWay{of, n, network, spread})
				}
			}
		}
	}
	return all
}

// spreads are the orders that divide a shape's devices in different ways over processes;
// none if there are too few devices.
func spreads(of deviceShape, processes int) []string {
	owners := func(byStage bool) (all []int) {
		s := cluster.Spread{Replicas: of.R, Stages: of.K, Processes: processes, ByStage: byStage}
		for _, p := range place.Of(of.R, of.K) {
			all = append(all, s.Owner(p))
		}
		return all
	}
	switch {
	case of.K*of.R < processes:
		return nil
	case slices.Equal(ownerClasses(owners(false)), ownerClasses(owners(true))):
		return []string{"replica"}
	}
	return []string{"replica", "stage"}
}

// ownerClasses numbers owners in the order in which they come: two divisions with the same are
// one but for the ranks.
func ownerClasses(owners []int) (all []int) {
	seen := map[int]int{}
	for _, o := range owners {
		if _, ok := seen[o]; !ok {
			seen[o] = len(seen)
		}
		all = append(all, seen[o])
	}
	return all
}

// sample is the name of a way's sample.
func (t *dividedTraining) sample(w dividedWay) string {
	name := fmt.Sprintf("%s/K=%d/R=%d/update=%s/processes=%d", t.Name, w.K, w.R, lab.DividedOrWhole(w.Shard), w.Processes)
	if w.Processes > 1 {
		name += "/spread=" + w.Spread + "/" + w.Network
	}
	return name
}

// arguments are a way's command.
func (t *dividedTraining) arguments(w dividedWay, steps int, seed uint64) []string {
	args := append([]string{
		"train", "--batch", strconv.Itoa(t.Batch), "--steps", strconv.Itoa(steps), "--seed", strconv.FormatUint(seed, 10),
		"--optimizer", t.Optimizer, "--lr", decimal(t.LR), "--lr-schedule", "constant", "--clip-norm", decimal(t.ClipNorm),
		"--groups", strconv.Itoa(t.G), "-m", strconv.Itoa(t.M), "-k", strconv.Itoa(w.K), "--replicas", strconv.Itoa(w.R),
	}, t.Model.Flags()...)
	if !t.Model.Images() {
		args = append(args, "--dropout", decimal(t.Model.Dropout))
	}
	if t.Scope != "" {
		args = append(args, "--bn-scope", t.Scope)
	}
	if w.Shard {
		args = append(args, "--zero=1")
	}
	if w.Processes > 1 {
		args = append(args, "--spread", w.Spread)
	}
	return args
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// dividedRun is one run.
type dividedRun struct {
	Run       dividedWay        `json:"run"`
	Command   []string          `json:"command"` // of each process
	Losses    []float64         `json:"losses"`
	Initial   string            `json:"initial_sha256"`
	SHA256    string            `json:"weights_sha256"`
	Peak      []int64           `json:"peak_bytes"`
	HighWater []int64           `json:"high_water_bytes"`
	Processes []train.Process   `json:"processes,omitempty"` // none: one
	Traffic   []train.Travelled `json:"traffic,omitempty"`   // of a step, from process to process
}

// Check requires losses, both hashes, memory of each device, and of several processes as
// many with what they sent.
func (r *dividedRun) Check() error {
	switch n := len(r.Processes); {
	case len(r.Losses) == 0:
		return errors.New("no losses")
	case len(r.Peak) != r.Run.K*r.Run.R || len(r.HighWater) != len(r.Peak):
		return fmt.Errorf("memory planned of %d devices and used of %d, want %d x %d", len(r.Peak), len(r.HighWater), r.Run.R, r.Run.K)
	case max(n, 1) != r.Run.Processes || n > 0 && len(r.Traffic) == 0:
		return fmt.Errorf("%d processes that sent %d kinds of tensors, want %d processes", n, len(r.Traffic), r.Run.Processes)
	}
	return errors.Join(records.CheckHash("initial_sha256", r.Initial), records.CheckHash("weights_sha256", r.SHA256))
}

// exact reports whether what was sent is what was planned, to the byte.
func (r *dividedRun) exact() bool {
	return !slices.ContainsFunc(r.Traffic, func(t train.Travelled) bool { return t.Bytes != t.PlannedBytes })
}

// Measure runs each way in processes of its own.
func (x *processes) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range x.Spec.Trainings {
		t := &x.Spec.Trainings[i]
		ways := slices.DeleteFunc(x.Spec.ways(t), func(w dividedWay) bool {
			return cluster.Lacks(w.Network) != "" || log.Has(t.sample(w))
		})
		if len(ways) == 0 {
			continue
		}
		p.Begin(fmt.Sprintf("%s, %s: %d steps in each of %d ways", x.ID(), t.Name, profile.Steps, len(ways)), len(ways))
		for _, w := range ways {
			if err := ctx.Err(); err != nil {
				return err
			}
			args := t.arguments(w, profile.Steps, x.Spec.Seed)
			var r train.Result
			if err := x.Run(ctx, w.Processes, w.Network, args, &r); err != nil {
				return fmt.Errorf("%s: %w", t.sample(w), err)
			}
			if err := log.Add(t.sample(w), x.Spec.Seed, dividedRun{
				w, args, r.Losses, r.InitialSHA256, r.WeightsSHA256, r.PeakBytes, r.HighWaterBytes, r.Processes, r.Traffic,
			}); err != nil {
				return err
			}
			p.Advance(fmt.Sprintf("%.10s  %s", r.WeightsSHA256, t.sample(w)))
		}
		p.End()
	}
	return nil
}

// Planned are the trainings in one process.
func (x *processes) Planned(profile string) (list []lab.PlannedRun) {
	for i, t := range x.Spec.Trainings {
		for j, s := range t.Shapes {
			list = append(list, lab.PlannedRun{Path: []string{"trainings", fmt.Sprint(i), "shapes", fmt.Sprint(j)}, Run: train.Training{
				Model: t.Model, Data: "synthetic", Batch: t.Batch, Steps: x.Spec.Profiles[profile].Steps, Seed: x.Spec.Seed,
				Optimizer: t.Optimizer, LR: t.LR, LRSchedule: "constant", ClipNorm: t.ClipNorm,
				Setup: train.Setup{
					Partitions: s.K, MicroBatches: t.M, Replicas: s.R, Groups: t.G, ShardUpdate: s.Shard,
					BNScope: lab.Named(gpipe.ParseScope, t.Scope),
				},
			}})
		}
	}
	return list
}

// loads are the kinds of what is sent here: no training gathers rows of tied tables, which
// are the last kind.
const loads = gpipe.GatheredRows

// read reads a training's runs, without those over networks that the program lacks which measured,
// by network: first those in one process.
func (x *processes) read(t *dividedTraining, log *records.Log) (all []*dividedRun, err error) {
	for _, network := range append([]string{""}, x.Spec.Networks...) {
		for _, w := range x.Spec.ways(t) {
			if w.Network != network || cluster.Lacks(network) != "" && !log.Has(t.sample(w)) {
				continue
			}
			r := &dividedRun{}
			if err := log.Get(t.sample(w), r); err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// Report compares weights, and bytes with the plan. A row of the table is one division of a training, over
// every network.
func (x *processes) Report(log, _ *records.Log) (*lab.Report, error) {
	table := &lab.Table{ID: x.ID(), Title: x.Spec.Title}
	table.Texts("training", "order of devices", "update")
	table.Numbers("processes", "K", "R", "runs")
	table.Texts("equal")
	table.Numbers("all", "planned")
	table.Texts("as planned")
	var panels []plot.Axes
	var runs, different, inexact int
	still, wasted := false, false // nothing was trained, other memory was used than was planned
	for i := range x.Spec.Trainings {
		t := &x.Spec.Trainings[i]
		all, err := x.read(t, log)
		if err != nil {
			return nil, err
		}
		table.Caption = append(table.Caption, fmt.Sprintf("%s: %s, mini-batches of %d in %d groups of %d micro-batches; SHA-256 of the weights in one process: %s.", t.Name, t.Title, t.Batch, t.G, t.M, all[0].SHA256[:16]))
		for _, r := range all {
			if !r.equals(all[0]) {
				different++
			}
			still = still || r.SHA256 == r.Initial
			wasted = wasted || !slices.Equal(r.Peak, r.HighWater)
		}
		runs += len(all)
		for _, network := range x.Spec.Networks {
			says := fmt.Sprintf("%s: %s.", networkName(network), cluster.Lacks(network))
			if !slices.ContainsFunc(all, func(r *dividedRun) bool { return r.Run.Network == network }) && !slices.Contains(table.Notes, says) {
				table.Notes = append(table.Notes, says)
			}
		}
		panel, others := x.addDivisions(table, t, all)
		panels, inexact = append(panels, panel), inexact+others
	}
	table.Caption = append(table.Caption,
		"Equal: every run of this division, one over each network, has the same losses and final weights as the first run of its training.",
		"Bytes that all processes together receive in a step; planned: derived from shapes, layouts and the division alone. The same over each network.")
	r := &lab.Report{Tables: []*lab.Table{table}}
	verdict := fmt.Sprintf("all %d runs agree to the bit, in every weight and every loss, with the first run of their training; what processes sent each other is what the plan says, to the byte.", runs)
	for _, c := range []struct {
		is   bool
		says string
	}{
		{different > 0, fmt.Sprintf("%d of %d runs DIFFER from the first run of their training", different, runs)},
		{still, "a run ended with the weights that it began with: nothing was trained"},
		{inexact > 0, fmt.Sprintf("in %d runs processes sent OTHER bytes than planned", inexact)},
		{wasted, "a device did not use exactly the planned memory"},
	} {
		if c.is {
			verdict, r.Verdict = c.says+".", errors.New(x.ID()+": "+c.says)
			break
		}
	}
	table.Notes = append([]string{"Verdict: " + verdict}, table.Notes...)
	var err error
	r.Files, err = plot.Figure(x, "P: processes; s: divided by stage; d: divided updates", r.Tables, plot.OneScale(panels))
	return r, err
}

// equals reports whether two runs have the same weights and losses.
func (r *dividedRun) equals(other *dividedRun) bool {
	return r.SHA256 == other.SHA256 && slices.Equal(r.Losses, other.Losses)
}

// networkName is a network's in tables.
func networkName(network string) string {
	switch network {
	case "":
		return "one process"
	case "unix":
		return "Unix sockets"
	}
	return strings.ToUpper(network)
}

// addDivisions adds a row for each division of a training, and draws what several processes sent. It also
// counts the runs in which that is not what was planned.
func (x *processes) addDivisions(table *lab.Table, t *dividedTraining, all []*dividedRun) (panel *plot.BarPanel, inexact int) {
	panel = &plot.BarPanel{Title: t.Name, Y: "KiB in a step", Stacked: true}
	kinds := make([]plot.BarSeries, loads)
	for _, w := range x.Spec.ways(t) {
		var same []*dividedRun // over any network
		for _, r := range all {
			if of := r.Run; of.deviceShape == w.deviceShape && of.Processes == w.Processes && of.Spread == w.Spread {
				same = append(same, r)
			}
		}
		if w.Processes > 1 && w.Network != x.Spec.Networks[0] || len(same) == 0 {
			continue
		}
		equal, exact := "yes", "yes"
		for _, r := range same {
			if !r.equals(all[0]) {
				equal = "NO"
			}
			if !r.exact() || !slices.EqualFunc(r.Traffic, same[0].Traffic, samePlan) {
				exact = "NO"
				inexact++
			}
		}
		cells := []any{t.Name, cmp.Or(w.Spread, "-"), lab.DividedOrWhole(w.Shard), w.Processes, w.K, w.R, len(same), equal}
		var sent, planned int64
		for l := range loads {
			of := travelled(same[0], l)
			sent, planned = sent+of.Bytes, planned+of.PlannedBytes
			if w.Processes > 1 {
				kinds[l].Add(float64(of.Bytes) / 1024)
			}
		}
		table.Add(append(cells, sent, planned, exact)...)
		if w.Processes == 1 {
			continue
		}
		label := fmt.Sprintf("P%d K%d R%d", w.Processes, w.K, w.R)
		if w.Spread == "stage" {
			label += " s"
		}
		if w.Shard {
			label += " d"
		}
		panel.Names = append(panel.Names, label)
	}
	for l := range loads {
		if kinds[l].Name = l.String(); slices.ContainsFunc(kinds[l].Values, func(kib float64) bool { return kib > 0 }) {
			panel.Series = append(panel.Series, kinds[l])
		}
	}
	return panel, inexact
}

// travelled is what a run's processes sent of a kind.
func travelled(r *dividedRun, l gpipe.Load) (of train.Travelled) {
	for _, t := range r.Traffic {
		if t.What == l.String() {
			return t
		}
	}
	return of
}

// samePlan reports whether the same bytes of a kind were to be sent.
func samePlan(a, b train.Travelled) bool {
	return a.What == b.What && a.PlannedBytes == b.PlannedBytes
}
