package densify

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// weakSpec is the spec of densify-weak.
type weakSpec struct {
	timed.Profiled[weakProfile] `yaml:",inline"`
	Emulated                    []int  `yaml:"emulated" want:"1..64,first=1,ascending"`
	Processes                   []int  `yaml:"processes" want:"1..64,first=1,ascending"`
	Network                     string `yaml:"network" want:"network"`
	M                           int    `yaml:"m" want:"1..1024"` // of a rank
	Checkpoint                  string `yaml:"checkpoint" want:"checkpoint"`
}

type weakProfile struct {
	timed.BenchSize `yaml:",inline"`
	Model           train.Model `yaml:"model"`
	Pairs           int         `yaml:"pairs" want:"1..65536"` // of a rank
}

// densifyWeak times steps of a translator on more and more ranks, with the gradient of its
// shared table gathered and reduced. It starts processes, one for all ranks or one for each.
type densifyWeak = timed.Compared[weakSpec, weakProfile, weakRun, timed.BenchSteps]

type weakRuns = timed.Comparison[weakProfile, weakRun, timed.BenchSteps]

// weakRun is a number of ranks with one way to add up the table's gradient.
type weakRun struct {
	kind  ranksAre
	way   gpipe.TableGradients
	ranks int
}

// ranksAre is how ranks run.
type ranksAre string

const (
	emulatedRanks ranksAre = "emulated"
	realRanks     ranksAre = "processes"
)

func newDensifyWeak() (lab.Experiment, error) {
	x := &densifyWeak{Starts: true}
	s := &x.Spec
	x.Check, x.Training, x.Show = s.check, s.training, s.show
	x.Runs = func(weakProfile) []weakRun { return s.runs() }
	x.Name = func(r weakRun) string { return fmt.Sprintf("%s/%v/R=%d", r.kind, r.way, r.ranks) }
	x.Make = func(ctx context.Context, p weakProfile, r weakRun) (*timed.BenchSteps, error) {
		processes := 1
		if r.kind == realRanks {
			processes = r.ranks
		}
		made, err := timed.StartBench(ctx, &x.Program, processes, s.Network, s.arguments(p, r))
		return &made.BenchSteps, err
	}
	return x, nil
}

func (x *weakSpec) check() *lab.Problem {
	for _, name := range lab.Profiles {
		if m := x.Profiles[name].Model; m.Name != train.Translator || m.Tied != "all" {
			return lab.At(fmt.Errorf("want %s with tied: all", train.Translator), "profiles", name, "model")
		}
	}
	return nil
}

func (x *weakSpec) runs() (all []weakRun) {
	for _, of := range []struct {
		kind  ranksAre
		ranks []int
	}{{emulatedRanks, x.Emulated}, {realRanks, x.Processes}} {
		for _, way := range tableWays {
			for _, n := range of.ranks {
				all = append(all, weakRun{of.kind, way, n})
			}
		}
	}
	return all
}

// training is a run in one process.
func (x *weakSpec) training(p weakProfile, r weakRun) train.Training {
	t := timed.BenchTraining(p.Model, r.ranks*p.Pairs, p.Steps, x.Seed, train.Setup{
		Partitions: 1, MicroBatches: x.M, Replicas: r.ranks, TiedGradients: r.way, Checkpoint: lab.Named(schedule.ParseCheckpoint, x.Checkpoint), Threads: 1,
	})
	if r.kind == emulatedRanks {
		t.Setup.Device = gpipe.Emulated
	}
	return t
}

// arguments are a run's command.
func (x *weakSpec) arguments(p weakProfile, r weakRun) []string {
	t := x.training(p, r)
	return timed.BenchArguments(t, p.WarmUp, "--device", t.Setup.Device.String(), "--tied-gradients", r.way.String())
}

func (x *weakSpec) show(c *weakRuns) (shown.Rows, error) {
	steps := func(c *weakRuns, r weakRun) []float64 { return c.Each(r, (*timed.BenchSteps).Median) }
	var rows []shown.Values
	for _, r := range x.runs() {
		one := weakRun{r.kind, r.way, 1}
		rows = append(rows, shown.Values{
			"kind": string(r.kind), "table": r.way.String(), "R": r.ranks, "pairs": r.ranks * c.Profile.Pairs,
			"step": steps(c, r), "one": steps(c, one), "before": steps(c.Before, r), "before_one": steps(c.Before, one),
		})
	}
	return shown.Rows{"": rows}, nil
}
