// Package throughput times steps in two processes against one.
package throughput

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

var Definition = lab.Definition{ID: "processes-throughput", Folder: folder, New: lab.New[Throughput], Command: "processes"}

// spec is spec.yaml.
type spec struct {
	lab.Head   `yaml:",inline"`
	Networks   []string           `yaml:"networks" want:"network"`
	Works      []Work             `yaml:"works"`
	Checkpoint string             `yaml:"checkpoint" want:"checkpoint"`
	M          int                `yaml:"m" want:"1..1024"` // of each group
	Profiles   map[string]profile `yaml:"profiles"`
}

// Work is what two devices do.
type Work struct {
	Name  string `yaml:"name" want:"name,key"`
	K     int    `yaml:"k" want:"1..2"`
	R     int    `yaml:"r" want:"1..2"`
	Shard bool   `yaml:"shard_update"`
}

type profile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Model    train.Model `yaml:"model"`
	Batch    int         `yaml:"batch" want:"1..65536"`
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    int         `yaml:"steps" want:"1..1000"`
	WarmUp   int         `yaml:"warm_up" want:"0..1000"`
}

// Throughput times the works in one process and in two, in turns.
type Throughput struct {
	lab.Base[spec]
	launch.Program
}

func (x *Throughput) Resolve() *lab.Problem {
	for i, w := range x.Spec.Works {
		if w.K*w.R != 2 {
			return lab.At(fmt.Errorf("two devices are wanted: K = %d and R = %d", w.K, w.R), "works", fmt.Sprint(i))
		}
		for _, name := range lab.Profiles {
			if n := x.Spec.Profiles[name].Batch; n%(x.Spec.M*w.R) != 0 {
				return lab.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", x.Spec.M*w.R, n), "profiles", name, "batch")
			}
		}
	}
	return nil
}

// Run is a work in one process, or in two that a network connects.
type Run struct {
	Work
	Network string // "": one process
}

// Runs are those of each round.
func (x *Throughput) Runs() (all []Run) {
	for _, w := range x.Spec.Works {
		for _, network := range append([]string{""}, x.Spec.Networks...) {
			all = append(all, Run{w, network})
		}
	}
	return all
}

// Sample is the name of a run's sample.
func (r Run) Sample(round int) string {
	name := fmt.Sprintf("%s/one process/round=%d", r.Name, round)
	if r.Network != "" {
		name = fmt.Sprintf("%s/two processes/%s/round=%d", r.Name, r.Network, round)
	}
	return name
}

// Record is what a run's steps of a round took.
type Record struct {
	Command   []string          `json:"command"` // of each process
	Seconds   []float64         `json:"step_seconds"`
	Processes []train.Process   `json:"processes,omitempty"` // none: one
	Traffic   []train.Travelled `json:"traffic,omitempty"`   // of a step, from process to process
}

// Check requires times, and of several processes what they sent.
func (r *Record) Check() error {
	switch {
	case len(r.Seconds) == 0 || slices.ContainsFunc(r.Seconds, func(s float64) bool { return s <= 0 }):
		return fmt.Errorf("%d times of steps, want some above 0", len(r.Seconds))
	case (len(r.Processes) > 0) != (len(r.Traffic) > 0):
		return errors.New("processes without what they sent")
	}
	return nil
}

// arguments are a run's command.
func (x *Throughput) arguments(r Run, p profile) []string {
	args := append([]string{
		"bench", "--batch", strconv.Itoa(p.Batch), "--steps", strconv.Itoa(p.Steps), "--warmup", strconv.Itoa(p.WarmUp),
		"--seed", strconv.FormatUint(x.Spec.Seed, 10), "--checkpoint", x.Spec.Checkpoint, "--threads", "1",
		"-m", strconv.Itoa(x.Spec.M), "-k", strconv.Itoa(r.K), "--replicas", strconv.Itoa(r.R),
	}, p.Model.Flags()...)
	if r.Shard {
		args = append(args, "--shard-update")
	}
	return args
}

// Measure runs what the log lacks, round after round. Which run is first moves.
func (x *Throughput) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	runs := slices.DeleteFunc(x.Runs(), func(r Run) bool { return launch.Lacks(r.Network) != "" })
	lacks := 0
	for round := range profile.Rounds {
		for _, r := range runs {
			if !log.Has(r.Sample(round)) {
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
			if log.Has(r.Sample(round)) {
				continue
			}
			processes, args := 1, x.arguments(r, profile)
			if r.Network != "" {
				processes = 2
			}
			var b train.Bench
			if err := x.Run(ctx, processes, r.Network, args, &b); err != nil {
				return fmt.Errorf("%s: %w", r.Sample(round), err)
			}
			if err := log.Add(r.Sample(round), x.Spec.Seed, Record{args, b.StepSeconds.All, b.Processes, b.Traffic}); err != nil {
				return err
			}
			p.Advance(r.Sample(round) + "  " + units.FormatSeconds(b.StepSeconds.Median))
		}
	}
	return nil
}

// Planned are the works in one process.
func (x *Throughput) Planned(name string) (list []lab.PlannedRun) {
	p := x.Spec.Profiles[name]
	for _, w := range x.Spec.Works {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", name}, Run: train.Training{
			Model: p.Model, Batch: p.Batch, Steps: p.Steps, Seed: x.Spec.Seed, Optimizer: "momentum", LR: 0.01, LRSchedule: "constant",
			Setup: train.Setup{
				Partitions: w.K, MicroBatches: x.Spec.M, Replicas: w.R, ShardUpdate: w.Shard, Checkpoint: lab.Named(schedule.ParseCheckpoint, x.Spec.Checkpoint),
			},
		}})
	}
	return list
}

// measured is a run of all rounds.
type measured struct {
	steps   []float64 // the median of each round, in seconds
	traffic []train.Travelled
	seconds map[string][]float64 // of each kind of traffic, by round
}

// read reads what the log has of a run; nil if this program lacks its network.
func (x *Throughput) read(log *records.Log, r Run) (*measured, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	if launch.Lacks(r.Network) != "" && !log.Has(r.Sample(0)) {
		return nil, nil
	}
	m := &measured{seconds: map[string][]float64{}}
	for round := range p.Rounds {
		var s Record
		if err := log.Get(r.Sample(round), &s); err != nil {
			return nil, err
		}
		m.steps = append(m.steps, stats.Median(s.Seconds))
		m.traffic = s.Traffic
		for _, t := range s.Traffic {
			m.seconds[t.What] = append(m.seconds[t.What], t.Seconds)
		}
	}
	return m, nil
}

// network names what connects a run's processes.
func (r Run) network() string {
	switch r.Network {
	case "":
		return "one process"
	case "unix":
		return "Unix sockets"
	}
	return strings.ToUpper(r.Network)
}

// Report shows throughput and what travels.
func (x *Throughput) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	table := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Measured as %v, a mini-batch of %d, M = %d in each replica, checkpoint %s, SGD momentum, host devices of one thread each: two in one process, or one in each of two.", p.Model, p.Batch, x.Spec.M, x.Spec.Checkpoint),
		fmt.Sprintf("Each of %d rounds starts all of them in turns, in processes of their own, and takes the median of %d steps after %d that are discarded. Median of the rounds, ratios within a round; in brackets the 95%% interval of order statistics.", p.Rounds, p.Steps, p.WarmUp),
	}}
	table.Texts("work", "network")
	table.Numbers("measured step", "95%, step", "examples/s", "measured / one process", "95%, / one process")
	if reference != nil {
		table.Numbers(lab.ReferenceName(log, reference) + " / one process")
	}
	traffic := &lab.Table{ID: x.ID() + "-traffic", Title: "Processes: what travels in a step, and how long it takes", Caption: []string{
		"From process to process, by the runs' own accounts, beside the bytes that are planned. Time: of taking the bytes in, added up over receivers, without waiting for their senders; it is part of the step, but for what other work overlaps.",
	}}
	traffic.Texts("work", "network", "what")
	traffic.Numbers("messages", "bytes", "planned", "measured time", "95%, time", "GB/s", "of the step")
	traffic.Texts("as planned")
	share := &plot.BarPanel{Title: "throughput", Y: "of one process with the same devices"}
	series, travels := map[string]*plot.BarSeries{}, map[string]*plot.BarPanel{}
	for _, n := range x.Spec.Networks {
		name := Run{Network: n}.network()
		series[n] = &plot.BarSeries{Name: name}
		travels[n] = &plot.BarPanel{Title: "what travels, " + name, Y: "ms in a step, over receivers", Stacked: true}
	}
	var inexact []string
	for _, w := range x.Spec.Works {
		share.Names = append(share.Names, w.Name)
		var one *measured
		for _, network := range append([]string{""}, x.Spec.Networks...) {
			r := Run{w, network}
			m, err := x.read(log, r)
			if err != nil {
				return nil, err
			}
			if m == nil {
				cells := []any{w.Name, r.network(), lab.Absent, lab.Absent, lab.Absent, lab.Value{Text: launch.Lacks(network)}, lab.Absent}
				if reference != nil {
					cells = append(cells, lab.Absent)
				}
				table.Add(cells...)
				continue
			}
			if one == nil {
				one = m
			}
			ratio := lab.Ratio(stats.RatioOf(one.steps, m.steps), m == one)
			cells := []any{w.Name, r.network(), lab.Median(m.steps, lab.Seconds), lab.Fixed(float64(p.Batch)/stats.Median(m.steps), 1), ratio}
			if reference != nil {
				cells = append(cells, x.referred(reference, r))
			}
			table.Add(cells...)
			if network == "" {
				continue
			}
			series[network].AddValue(ratio[0])
			m.draw(travels[network], w.Name)
			for _, of := range m.traffic {
				seconds := m.seconds[of.What]
				planned := "yes"
				if of.Bytes != of.PlannedBytes {
					planned = "NO"
					inexact = append(inexact, r.Sample(0))
				}
				traffic.Add(w.Name, r.network(), of.What, of.Messages, lab.Bytes(of.Bytes), lab.Bytes(of.PlannedBytes),
					lab.Median(seconds, lab.Seconds), lab.Fixed(1e-9*float64(of.Bytes)/stats.Median(seconds), 2),
					lab.Share(stats.Median(seconds), stats.Median(m.steps)), planned)
			}
		}
	}
	var panels []plot.Axes
	for _, n := range x.Spec.Networks {
		if len(series[n].Values) > 0 {
			share.Series = append(share.Series, *series[n])
			panels = append(panels, travels[n])
		}
	}
	table.Notes = lab.FewRoundsNote(p.Rounds)
	traffic.Notes = lab.FewRoundsNote(p.Rounds)
	if reference != nil {
		table.Notes = append(table.Notes, lab.ReferenceNote(reference))
	}
	report := &lab.Report{Tables: []*lab.Table{table, traffic}}
	if len(inexact) > 0 {
		report.Verdict = fmt.Errorf("%s: processes sent other bytes than planned: %s", x.ID(), strings.Join(inexact, ", "))
	}
	report.Files, err = plot.Files(x.ID(), x.Title(), append([]plot.Axes{share}, plot.OneScale(panels)...))
	return report, err
}

// draw adds the time of what travels to a panel.
func (m *measured) draw(to *plot.BarPanel, name string) {
	to.Names = append(to.Names, name)
	for what := range gpipe.Loads {
		i := slices.IndexFunc(to.Series, func(s plot.BarSeries) bool { return s.Name == what.String() })
		seconds := m.seconds[what.String()]
		if i < 0 && seconds == nil {
			continue
		}
		if i < 0 {
			i = len(to.Series)
			to.Series = append(to.Series, plot.BarSeries{Name: what.String(), Values: make([]float64, len(to.Names)-1)})
		}
		ms := 0.0
		if seconds != nil {
			ms = 1000 * stats.Median(seconds)
		}
		to.Series[i].Add(ms)
	}
}

// referred is the reference's throughput against one process.
func (x *Throughput) referred(reference *records.Log, r Run) lab.Value {
	one, err := x.read(reference, Run{r.Work, ""})
	m, e := x.read(reference, r)
	if err != nil || e != nil || m == nil {
		return lab.Absent
	}
	return lab.Fixed(stats.RatioOf(one.steps, m.steps).Median, 2)
}
