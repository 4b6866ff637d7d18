package beyond

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// throughputSpec is the spec of processes-throughput.
type throughputSpec struct {
	timed.Profiled[throughputProfile] `yaml:",inline"`
	Networks                          []string     `yaml:"networks" want:"network"`
	Works                             []deviceWork `yaml:"works"`
	Checkpoint                        string       `yaml:"checkpoint" want:"checkpoint"`
	M                                 int          `yaml:"m" want:"1..1024"` // of each group
}

// deviceWork is what two devices do.
type deviceWork struct {
	Name  string `yaml:"name" want:"name,key"`
	K     int    `yaml:"k" want:"1..2"`
	R     int    `yaml:"r" want:"1..2"`
	Shard bool   `yaml:"shard_update"`
}

type throughputProfile struct {
	timed.BenchSize `yaml:",inline"`
	Model           train.Model `yaml:"model"`
	Batch           int         `yaml:"batch" want:"1..65536"`
}

// processesThroughput times the works in one process and in two, in turns.
type processesThroughput = timed.Compared[throughputSpec, throughputProfile, workOver, timed.BenchTravels]

type throughputRuns = timed.Comparison[throughputProfile, workOver, timed.BenchTravels]

// workOver is a work in one process, or in two that a network connects.
type workOver struct {
	deviceWork
	network string // "": one process
}

func newProcessesThroughput() (lab.Experiment, error) {
	x := &processesThroughput{Starts: true}
	s := &x.Spec
	x.Check, x.Training, x.Show = s.check, s.training, s.show
	x.Runs = func(throughputProfile) []workOver { return s.runs() }
	x.Name = func(r workOver) string {
		if r.network == "" {
			return r.Name + "/one process"
		}
		return r.Name + "/two processes/" + r.network
	}
	x.Network = func(r workOver) string { return r.network }
	x.Make = func(ctx context.Context, p throughputProfile, r workOver) (*timed.BenchTravels, error) {
		processes, args := 1, timed.BenchArguments(s.training(p, r), p.WarmUp)
		if r.network != "" {
			processes = 2
		}
		if r.Shard {
			args = append(args, "--zero=1")
		}
		return timed.StartBench(ctx, &x.Program, processes, r.network, args)
	}
	return x, nil
}

func (x *throughputSpec) check() *lab.Problem {
	for i, w := range x.Works {
		if w.K*w.R != 2 {
			return lab.At(fmt.Errorf("two devices are wanted: K = %d and R = %d", w.K, w.R), "works", fmt.Sprint(i))
		}
		for _, name := range lab.Profiles {
			if n := x.Profiles[name].Batch; n%(x.M*w.R) != 0 {
				return lab.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", x.M*w.R, n), "profiles", name, "batch")
			}
		}
	}
	return nil
}

func (x *throughputSpec) runs() (all []workOver) {
	for _, w := range x.Works {
		for _, network := range append([]string{""}, x.Networks...) {
			all = append(all, workOver{w, network})
		}
	}
	return all
}

// training is a run in one process.
func (x *throughputSpec) training(p throughputProfile, r workOver) train.Training {
	return timed.BenchTraining(p.Model, p.Batch, p.Steps, x.Seed, train.Setup{
		Partitions: r.K, MicroBatches: x.M, Replicas: r.R, ShardUpdate: r.Shard, Checkpoint: lab.Named(schedule.ParseCheckpoint, x.Checkpoint), Threads: 1,
	})
}

// travel is one kind of what travels in a run.
type travel struct {
	workOver
	what    string
	seconds []float64 // by round
}

func (x *throughputSpec) show(c *throughputRuns) (shown.Rows, error) {
	steps := func(c *throughputRuns, r workOver) []float64 { return c.Each(r, (*timed.BenchTravels).Median) }
	var rows []shown.Values
	for _, r := range x.runs() {
		one := workOver{r.deviceWork, ""}
		row := shown.Values{
			"work": r.Name, "network": networkName(r.network), "several": r.network != "" && c.Lacks[r] == "",
			"step": steps(c, r), "relative": timed.Quotients(steps(c, one), steps(c, r)), "before": steps(c.Before, r), "before_one": steps(c.Before, one),
		}
		if why := c.Lacks[r]; why != "" {
			row["relative"], row["before"] = lab.Value{Text: why}, []float64(nil)
		}
		rows = append(rows, row)
	}
	var travels []travel
	var inexact []string
	for _, r := range x.runs() {
		for round, b := range c.Of[r] {
			if slices.ContainsFunc(b.Traffic, func(t train.Travelled) bool { return t.Bytes != t.PlannedBytes }) {
				inexact = append(inexact, c.Sample(r, round))
			}
			for _, of := range b.Traffic {
				i := slices.IndexFunc(travels, func(t travel) bool { return t.workOver == r && t.what == of.What })
				if i < 0 {
					i, travels = len(travels), append(travels, travel{workOver: r, what: of.What})
				}
				travels[i].seconds = append(travels[i].seconds, of.Seconds)
			}
		}
	}
	if len(inexact) > 0 {
		c.Verdict = fmt.Errorf("processes sent other bytes than planned: %s", strings.Join(inexact, ", "))
	}
	c.Panels = x.travelPanels(c, travels)
	return shown.Rows{"": rows}, nil
}

// travelPanels draw what travels over each network.
func (x *throughputSpec) travelPanels(c *throughputRuns, travels []travel) (panels []plot.Axes) {
	var names []string
	for _, w := range x.Works {
		names = append(names, w.Name)
	}
	for _, n := range x.Networks {
		if c.Lacks[workOver{x.Works[0], n}] != "" {
			continue
		}
		panel := &plot.BarPanel{Title: "what travels, " + networkName(n), Y: "ms in a step, over receivers", Stacked: true, Names: names}
		var kinds []string // in the order in which the works come to them
		for _, t := range travels {
			if t.network == n && !slices.Contains(kinds, t.what) {
				kinds = append(kinds, t.what)
			}
		}
		for _, what := range kinds {
			kind := plot.BarSeries{Name: what}
			for _, w := range x.Works {
				ms := 0.0
				if i := slices.IndexFunc(travels, func(t travel) bool { return t.workOver == workOver{w, n} && t.what == what }); i >= 0 {
					ms = 1000 * stats.Median(travels[i].seconds)
				}
				kind.Add(ms)
			}
			panel.Series = append(panel.Series, kind)
		}
		panels = append(panels, panel)
	}
	return plot.OneScale(panels)
}
