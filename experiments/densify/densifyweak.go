package densify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// weakSpec is the spec of densify-weak.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type weakSpec struct {
	timed.Profiled[weakProfile] `yaml:",inline"`
	Emulated                    []int  `yaml:"emulated" want:"1..64"`
	Processes                   []int  `yaml:"processes" want:"1..64"`
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
type densifyWeak struct {
	timed.Compared[weakSpec, weakProfile, weakRun, timed.BenchSteps]
}

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

// weakWays begin with the one that the paper finds.
var weakWays = []gpipe.TableGradients{gpipe.GatherTied, gpipe.ReduceTied}

func newDensifyWeak() (lab.Experiment, error) {
	x := &densifyWeak{}
	x.Starts = true
	x.Runs = func(weakProfile) []weakRun { return x.runs() }
	x.Name = func(r weakRun) string { return fmt.Sprintf("%s/%v/R=%d", r.kind, r.way, r.ranks) }
	x.Training, x.Show = x.training, x.show
	x.Make = func(ctx context.Context, p weakProfile, r weakRun) (*timed.BenchSteps, error) {
		processes := 1
		if r.kind == realRanks {
			processes = r.ranks
		}
		made, err := timed.StartBench(ctx, &x.Program, processes, x.Spec.Network, x.arguments(p, r))
		return &made.BenchSteps, err
	}
	return x, nil
}

func (x *densifyWeak) Resolve() *lab.Problem {
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

func (x *densifyWeak) runs() (all []weakRun) {
	for _, of := range []struct {
		kind  ranksAre
		ranks []int
	}{{emulatedRanks, x.Spec.Emulated}, {realRanks, x.Spec.Processes}} {
		for _, way := range weakWays {
			for _, n := range of.ranks {
				all = append(all, weakRun{of.kind, way, n})
			}
		}
	}
	return all
}

// training is a run in one process.
func (x *densifyWeak) training(p weakProfile, r weakRun) train.Training {
	t := timed.BenchTraining(p.Model, r.ranks*p.Pairs, p.Steps, x.Spec.Seed, train.Setup{
		Partitions: 1, MicroBatches: x.Spec.M, Replicas: r.ranks, TiedGradients: r.way, Checkpoint: lab.Named(schedule.ParseCheckpoint, x.Spec.Checkpoint), Threads: 1,
	})
	if r.kind == emulatedRanks {
		t.Setup.Device = gpipe.Emulated
	}
	return t
}

// arguments are a run's command.
func (x *densifyWeak) arguments(p weakProfile, r weakRun) []string {
	t := x.training(p, r)
	return timed.BenchArguments(t, p.WarmUp, "--device", t.Setup.Device.String(), "--tied-gradients", r.way.String())
}

func (x *densifyWeak) show(c *weakRuns) error {
	p := c.Profile
	c.Table.Caption = []string{
		fmt.Sprintf("%v, with one table for both sides and the softmax: %d pairs of up to %d tokens a rank, K = 1, M = %d, checkpoint %s, SGD momentum, one thread a rank. Emulated: one process runs one rank's task at a time, and the step is that of ranks beside each other, without links. Processes: a rank in each of several, over %s.",
			p.Model, p.Pairs, p.Model.Seq, x.Spec.M, x.Spec.Checkpoint, strings.ToUpper(x.Spec.Network)),
		fmt.Sprintf("Each of %d rounds starts all of them in turns, in processes of their own, and takes the median of %d steps after %d that are discarded. Efficiency, as in the paper: speedup over the ideal one, here the step of one rank over that of several, in a round and with the same way. Median of the rounds; in brackets the 95%% interval of order statistics.", p.Rounds, p.Steps, p.WarmUp),
	}
	steps := func(c *weakRuns, r weakRun) []float64 { return c.Each(r, (*timed.BenchSteps).Median) }
	efficiency := func(c *weakRuns, r weakRun) (one, of []float64) {
		return steps(c, weakRun{r.kind, r.way, 1}), steps(c, r)
	}
	timed.Fill(c.Table, x.runs(),
		timed.Text("ranks are", func(r weakRun) any { return string(r.kind) }),
		timed.Text("table", func(r weakRun) any { return r.way.String() }),
		timed.Number("ranks", func(r weakRun) any { return r.ranks }),
		timed.Number("mini-batch", func(r weakRun) any { return r.ranks * p.Pairs }),
		timed.Times("measured step", func(r weakRun) []float64 { return steps(c, r) }),
		timed.Number("pairs/s", func(r weakRun) any { return lab.Fixed(float64(r.ranks*p.Pairs)/stats.Median(steps(c, r)), 1) }),
		timed.Ratios("efficiency", func(r weakRun) (one, of []float64) { return efficiency(c, r) }),
		timed.Ratios("gather / reduce", func(r weakRun) (gather, reduce []float64) {
			if r.way == gpipe.ReduceTied {
				return nil, nil
			}
			return steps(c, r), steps(c, weakRun{r.kind, gpipe.ReduceTied, r.ranks})
		}),
		c.Referred(c.Beside+" efficiency", func(b *weakRuns, r weakRun) any {
			return lab.Fixed(stats.RatioOf(efficiency(b, r)).Median, 2)
		}),
	)
	c.Panels = plot.OneScale(plot.TableGroups{
		Panel: "ranks are", Group: "ranks", By: "table", Column: "efficiency", PanelTitle: "%s", Title: "R = %s", Name: "measured, %s", Y: "efficiency",
	}.Panels(c.Table))
	return nil
}
