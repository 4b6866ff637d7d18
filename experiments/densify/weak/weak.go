// Package weak times steps of a translator on more and more ranks, with the gradient of
// its shared table gathered and reduced.
package weak

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/experiments/launch"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "densify-weak", Folder: folder, New: lab.New[weak]}

// spec is spec.yaml.
type spec struct {
	lab.Head   `yaml:",inline"`
	Emulated   []int              `yaml:"emulated" want:"1..64"`
	Processes  []int              `yaml:"processes" want:"1..64"`
	Network    string             `yaml:"network" want:"network"`
	M          int                `yaml:"m" want:"1..1024"` // of a rank
	Checkpoint string             `yaml:"checkpoint" want:"checkpoint"`
	Profiles   map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Model    train.Model `yaml:"model"`
	Pairs    int         `yaml:"pairs" want:"1..65536"` // of a rank
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    int         `yaml:"steps" want:"1..1000"`
	WarmUp   int         `yaml:"warm_up" want:"0..1000"`
}

// weak starts processes, one for all ranks or one for each.
type weak struct {
	lab.Base[spec]
	launch.Program
}

func (x *weak) Resolve() *lab.Problem {
	for key, ranks := range map[string][]int{"emulated": x.Spec.Emulated, "processes": x.Spec.Processes} {
		if ranks[0] != 1 || !slices.IsSorted(ranks) || len(ranks) < 2 {
			return lab.At(errors.New("want 1 first, then others in ascending order"), key)
		}
	}
	for _, name := range lab.Profiles {
		switch p := x.Spec.Profiles[name]; {
		case p.Model.Name != train.Translator || p.Model.Tied != "all":
			return lab.At(fmt.Errorf("want %s with tied: all", train.Translator), "profiles", name, "model")
		case p.Pairs < x.Spec.M:
			return lab.At(fmt.Errorf("want %d or more, one for each micro-batch", x.Spec.M), "profiles", name, "pairs")
		}
	}
	return nil
}

// kind is how ranks run.
type kind string

const (
	emulated kind = "emulated"
	real     kind = "processes"
)

var kinds = []kind{emulated, real}

// run is a number of ranks with one way to add up the table's gradient.
type run struct {
	kind  kind
	way   gpipe.TableGradients
	ranks int
}

// ways begin with the one that the paper finds.
var ways = []gpipe.TableGradients{gpipe.GatherTied, gpipe.ReduceTied}

// runs are those of each round.
func (x *weak) runs() (all []run) {
	for _, k := range kinds {
		for _, way := range ways {
			ranks := x.Spec.Emulated
			if k == real {
				ranks = x.Spec.Processes
			}
			for _, n := range ranks {
				all = append(all, run{k, way, n})
			}
		}
	}
	return all
}

// base is one rank of the same kind and way, which efficiency is relative to.
func (r run) base() run { return run{r.kind, r.way, 1} }

func (r run) sample(round int) string {
	return fmt.Sprintf("%s/%v/R=%d/round=%d", r.kind, r.way, r.ranks, round)
}

// arguments are a run's command.
func (x *weak) arguments(r run, p profile) []string {
	device := gpipe.Emulated
	if r.kind == real {
		device = gpipe.Host
	}
	return append([]string{
		"bench", "--batch", strconv.Itoa(r.ranks * p.Pairs), "--steps", strconv.Itoa(p.Steps), "--warmup", strconv.Itoa(p.WarmUp),
		"--seed", strconv.FormatUint(x.Spec.Seed, 10), "--checkpoint", x.Spec.Checkpoint, "--device", device.String(), "--threads", "1",
		"-m", strconv.Itoa(x.Spec.M), "-k", "1", "--replicas", strconv.Itoa(r.ranks), "--tied-gradients", r.way.String(),
	}, p.Model.Flags()...)
}

// Record is what a run's steps of a round took.
type Record struct {
	Command []string  `json:"command"` // of each process
	Seconds []float64 `json:"step_seconds"`
}

// Check requires times.
func (r *Record) Check() error {
	if len(r.Seconds) == 0 || slices.ContainsFunc(r.Seconds, func(s float64) bool { return s <= 0 }) {
		return fmt.Errorf("%d times of steps, want some above 0", len(r.Seconds))
	}
	return nil
}

// Measure runs what the log lacks, round after round. Which run is first moves.
func (x *weak) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	runs, lacks := x.runs(), 0
	for round := range profile.Rounds {
		for _, r := range runs {
			if !log.Has(r.sample(round)) {
				lacks++
			}
		}
	}
	if lacks == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %d rounds of %d runs, each in processes of its own", x.ID(), profile.Rounds, len(runs)), lacks)
	defer p.End()
	for round := range profile.Rounds {
		for i := range runs {
			r := runs[(i+round)%len(runs)]
			name := r.sample(round)
			if log.Has(name) {
				continue
			}
			processes := 1
			if r.kind == real {
				processes = r.ranks
			}
			var b train.Bench
			args := x.arguments(r, profile)
			if err := x.Run(ctx, processes, x.Spec.Network, args, &b); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := log.Add(name, x.Spec.Seed, Record{args, b.StepSeconds.All}); err != nil {
				return err
			}
			p.Advance(name + "  " + units.FormatSeconds(b.StepSeconds.Median))
		}
	}
	return nil
}

// Planned are the runs in one process.
func (x *weak) Planned(name string) (list []lab.PlannedRun) {
	p := x.Spec.Profiles[name]
	for _, r := range x.runs() {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", name}, Run: train.Training{
			Model: p.Model, Batch: r.ranks * p.Pairs, Steps: p.Steps, Seed: x.Spec.Seed, Optimizer: "momentum", LR: 0.01, LRSchedule: "constant",
			Setup: train.Setup{
				Partitions: 1, MicroBatches: x.Spec.M, Replicas: r.ranks, TiedGradients: r.way, Checkpoint: lab.Named(schedule.ParseCheckpoint, x.Spec.Checkpoint),
			},
		}})
	}
	return list
}

// read is the median step of each round of all runs, in seconds.
func (x *weak) read(log *records.Log) (profile, map[run][]float64, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return p, nil, err
	}
	of := map[run][]float64{}
	for _, r := range x.runs() {
		for round := range p.Rounds {
			var s Record
			if err := log.Get(r.sample(round), &s); err != nil {
				return p, nil, err
			}
			of[r] = append(of[r], stats.Median(s.Seconds))
		}
	}
	return p, of, nil
}

// Report shows steps and efficiencies.
func (x *weak) Report(log, reference *records.Log) (*lab.Report, error) {
	p, of, err := x.read(log)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("%v, with one table for both sides and the softmax: %d pairs of up to %d tokens a rank, K = 1, M = %d, checkpoint %s, SGD momentum, one thread a rank. Emulated: one process runs one rank's task at a time, and the step is that of ranks beside each other, without links. Processes: a rank in each of several, over %s.",
			p.Model, p.Pairs, p.Model.Seq, x.Spec.M, x.Spec.Checkpoint, strings.ToUpper(x.Spec.Network)),
		fmt.Sprintf("Each of %d rounds starts all of them in turns, in processes of their own, and takes the median of %d steps after %d that are discarded. Efficiency, as in the paper: speedup over the ideal one, here the step of one rank over that of several, in a round and with the same way. Median of the rounds; in brackets the 95%% interval of order statistics.", p.Rounds, p.Steps, p.WarmUp),
	}}
	t.Texts("ranks are", "table")
	t.Numbers("ranks", "mini-batch", "measured step", "95%, step", "pairs/s", "efficiency", "95%, efficiency", "gather / reduce", "95%, gather / reduce")
	var before map[run][]float64
	if reference != nil {
		t.Numbers(lab.ReferenceName(log, reference) + " efficiency")
		if _, before, err = x.read(reference); err != nil {
			before = nil // of another spec
		}
	}
	for _, r := range x.runs() {
		slower := []lab.Value{lab.Absent, lab.Absent}
		if r.way == gpipe.GatherTied {
			slower = lab.Ratio(stats.RatioOf(of[r], of[run{r.kind, gpipe.ReduceTied, r.ranks}]), false)
		}
		row := []any{string(r.kind), r.way.String(), r.ranks, r.ranks * p.Pairs, lab.Median(of[r], lab.Seconds),
			lab.Fixed(float64(r.ranks*p.Pairs)/stats.Median(of[r]), 1), lab.Ratio(stats.RatioOf(of[r.base()], of[r]), r.ranks == 1), slower}
		if reference != nil {
			cell := lab.Absent
			if before != nil {
				cell = lab.Fixed(stats.RatioOf(before[r.base()], before[r]).Median, 2)
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	t.Notes = lab.FewRoundsNote(p.Rounds)
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	report := &lab.Report{Tables: []*lab.Table{t}}
	report.Files, err = plot.Files(x.ID(), x.Title(), x.panels(t))
	return report, err
}

// panels draw efficiencies, a panel for each kind of ranks.
func (x *weak) panels(t *lab.Table) []plot.Axes {
	var all []plot.Axes
	for _, k := range kinds {
		bars := &plot.BarPanel{Title: string(k), Y: "efficiency"}
		series := map[gpipe.TableGradients]*plot.BarSeries{}
		for _, way := range ways {
			series[way] = &plot.BarSeries{Name: "measured, " + way.String()}
		}
		for i, r := range x.runs() {
			if r.kind != k {
				continue
			}
			if r.way == ways[0] {
				bars.Names = append(bars.Names, fmt.Sprintf("R = %d", r.ranks))
			}
			series[r.way].AddValue(t.Rows[i][t.Column("efficiency")])
		}
		for _, way := range ways {
			bars.Series = append(bars.Series, *series[way])
		}
		all = append(all, bars)
	}
	return plot.OneScale(all)
}
