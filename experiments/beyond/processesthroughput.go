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
	train.Travelled
	seconds []float64 // by round
}

func (x *throughputSpec) show(c *throughputRuns) error {
	steps := func(c *throughputRuns, r workOver) []float64 { return c.Each(r, (*timed.BenchTravels).Median) }
	ratio := func(c *throughputRuns, r workOver) (one, of []float64) {
		return steps(c, workOver{r.deviceWork, ""}), steps(c, r)
	}
	timed.Fill(c.Table, x.runs(),
		timed.Text("work", func(r workOver) any { return r.Name }),
		timed.Text("network", func(r workOver) any { return networkName(r.network) }),
		timed.Times("measured step", func(r workOver) []float64 { return steps(c, r) }),
		timed.Column[workOver]{Heads: []string{"measured / one process", "95%, / one process"}, Cells: func(r workOver) any {
			if why := c.Lacks[r]; why != "" {
				return []lab.Value{{Text: why}, lab.Absent}
			}
			one, of := ratio(c, r)
			return lab.Ratio(stats.RatioOf(one, of), r.network == "")
		}},
		c.Referred(c.Beside+" / one process", func(b *throughputRuns, r workOver) any {
			if c.Lacks[r]+b.Lacks[r] != "" {
				return lab.Absent
			}
			return lab.Fixed(stats.RatioOf(ratio(b, r)).Median, 2)
		}),
	)
	var travels []travel
	for _, r := range x.runs() {
		if len(c.Of[r]) == 0 {
			continue
		}
		for i, of := range c.Of[r][len(c.Of[r])-1].Traffic {
			travels = append(travels, travel{r, of, c.Each(r, func(b *timed.BenchTravels) float64 { return b.Traffic[i].Seconds })})
		}
	}
	var inexact []string
	for _, t := range travels {
		if t.Bytes != t.PlannedBytes {
			inexact = append(inexact, c.Sample(t.workOver, 0))
		}
	}
	if len(inexact) > 0 {
		c.Verdict = fmt.Errorf("processes sent other bytes than planned: %s", strings.Join(inexact, ", "))
	}
	x.draw(c, travels)
	return nil
}

// draw draws throughputs, and what travels over each network.
func (x *throughputSpec) draw(c *throughputRuns, travels []travel) {
	share := &plot.BarPanel{Title: "throughput", Y: "of one process with the same devices"}
	for _, w := range x.Works {
		share.Names = append(share.Names, w.Name)
	}
	var panels []plot.Axes
	for _, n := range x.Networks {
		if c.Lacks[workOver{x.Works[0], n}] != "" {
			continue
		}
		series := plot.BarSeries{Name: networkName(n)}
		for i, r := range x.runs() {
			if r.network == n {
				series.AddValue(c.Table.Rows[i][c.Table.Column("measured / one process")])
			}
		}
		share.Series = append(share.Series, series)
		panel := &plot.BarPanel{Title: "what travels, " + networkName(n), Y: "ms in a step, over receivers", Stacked: true, Names: share.Names}
		var kinds []string // in the order in which the works come to them
		for _, t := range travels {
			if t.network == n && !slices.Contains(kinds, t.What) {
				kinds = append(kinds, t.What)
			}
		}
		for _, what := range kinds {
			kind := plot.BarSeries{Name: what}
			for _, w := range x.Works {
				ms := 0.0
				if i := slices.IndexFunc(travels, func(t travel) bool { return t.workOver == workOver{w, n} && t.What == what }); i >= 0 {
					ms = 1000 * stats.Median(travels[i].seconds)
				}
				kind.Add(ms)
			}
			panel.Series = append(panel.Series, kind)
		}
		panels = append(panels, panel)
	}
	c.Panels = append([]plot.Axes{share}, plot.OneScale(panels)...)
}
