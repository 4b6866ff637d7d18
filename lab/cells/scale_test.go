package cells_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

func TestRoundSizes(t *testing.T) {
	for most, want := range map[int]string{0: "", 1: "1", 2: "1 2", 5: "1 2 3 4", 24: "1 2 3 4 6 8 12 16 24"} {
		testkit.Equal(t, lab.JoinWith(cells.RoundSizes(most), " "), want, "up to %d", most)
	}
}

// The micro-batch that fills memory is the largest that fits, from wherever the
// search begins.
func TestFilledIsTheLargestThatFits(t *testing.T) {
	ctx := context.Background()
	for _, kib := range []int{1, 400, 900, 100000} {
		n := &cells.Network{On: cells.On{Model: cellstest.SmallLM, Accelerator: cellstest.SmallAccelerator(t, kib), DType: "f32", Optimizer: "adam"}}
		sizes := []int{3, 3}
		const most = 48
		m := testkit.Must(cells.NewModeller(n, false, nil))(t)
		want := 1
		for _, micro := range cells.RoundSizes(most) {
			s := testkit.Must(m.Step(ctx, sizes, micro, 4))(t)
			if s.Fits {
				want = micro
			}
		}
		for _, known := range []int{1, 7, 48} {
			m := testkit.Must(cells.NewModeller(n, false, nil))(t)
			got := testkit.Must(m.Filled(ctx, sizes, 4, known, most))(t)
			if got.Micro != want || got.Fits != (kib > 1) {
				t.Errorf("%d KiB, from %d: %d examples, fits %v; want %d", kib, known, got.Micro, got.Fits, want)
			}
			if m.Simulations() > 5 {
				t.Errorf("%d KiB, from %d: %d simulations", kib, known, m.Simulations())
			}
			// Guesses that are far off.
			for _, guess := range []float64{1, 1000} {
				got := testkit.Must(cells.FilledFrom(m, ctx, sizes, 4, guess, most))(t)
				testkit.Equal(t, got.Micro, want, "%d KiB, guessing %v: examples", kib, guess)
			}
		}
	}
}

// What is cut by time is cut by the time of the micro-batch at hand.
func TestModellerCosts(t *testing.T) {
	ctx := context.Background()
	m := testkit.Must(cells.NewModeller(&cells.Network{On: cells.On{Model: cellstest.SmallLM, Accelerator: cellstest.SmallAccelerator(t, 400), DType: "f32", Optimizer: "adam"}}, false, nil))(t)
	at := func(cost train.Cost, micro int) float64 {
		costs := testkit.Must(m.Costs(ctx, cost, micro))(t)
		testkit.Equal(t, len(costs), 6, "costs")
		return costs[2]
	}
	if !(at(train.Time, 16) > 2*at(train.Time, 1)) || at(train.FLOPs, 16) != at(train.FLOPs, 1) || at(train.Memory, 16) != at(train.Memory, 1) || at(train.Memory, 1) == at(train.FLOPs, 1) {
		t.Errorf("time %v and %v, FLOPs %v, memory %v", at(train.Time, 1), at(train.Time, 16), at(train.FLOPs, 1), at(train.Memory, 1))
	}
	published := at(train.Time, 16)
	half := testkit.Must(accelerator.ParseVariation("half the arithmetic rate"))(t)
	n := &cells.Network{On: cells.On{Model: cellstest.SmallLM, Accelerator: cellstest.SmallAccelerator(t, 400), DType: "f32", Optimizer: "adam"}, Change: half.Change}
	m = testkit.Must(cells.NewModeller(n, false, nil))(t)
	if got := at(train.Time, 16); !(got > 1.2*published && got < 2*published) {
		t.Errorf("at half the arithmetic rate %v s, as published %v", got, published)
	}
}

// What a cell says is what simulate says.
func TestPaperScaleMeasures(t *testing.T) {
	s := cellstest.SmallScale(t)
	n := s.Networks[0]
	log := records.New(records.Key{})
	for range 2 { // once is enough
		testkit.NoError(t, lab.MakeMissing(t.Context(), "scale", log, progress.Silent{}, s.Jobs()))
	}
	testkit.Equal(t, len(log.Names), 2*4*3, "samples")
	late := cells.Convention{Cut: s.Conventions.Cuts[1], Split: "fine", Recompute: "late", Batch: "fixed"}
	m := testkit.Must(s.Read(log))(t)
	step, seconds := m.Step(n, late, lab.Cell{K: 3, M: 4})
	sim := simulate.Simulating{Model: cellstest.SmallLM, Setup: train.Setup{Partitions: 3, MicroBatches: 4, Cost: train.Time, LateRecompute: true}, Accelerator: n.Accelerator, Batch: 16, Optimizer: "adam"}
	sim.Model.Fine = true
	sim.DType, _ = train.ParseDType("f32")
	r := testkit.Must(sim.Run(context.Background()))(t)
	if r.StepSeconds != seconds || !slices.Equal(r.Partition, step.Partition) || r.Fits != step.Fits {
		t.Errorf("%v s, cut %v, fits %v; simulate says %v s, %v, %v", seconds, step.Partition, step.Fits, r.StepSeconds, r.Partition, r.Fits)
	}
	for _, c := range s.Cells() {
		for _, v := range s.ConventionsOf(n) {
			fixed, _ := m.Step(n, cells.Convention{Cut: v.Cut, Split: v.Split, Recompute: v.Recompute, Batch: "fixed"}, c)
			got, _ := m.Step(n, v, c)
			if want := map[bool]int{true: fixed.Micro}[fixed.Fits]; v.Batch == "shrunk" && want > 0 && got.Micro != want {
				t.Errorf("K = %d, M = %d: shrunk to %d, though %d fit", c.K, c.M, got.Micro, want)
			}
			if v.Batch == "fixed" && got.Micro*c.M != 16 {
				t.Errorf("K = %d, M = %d: fixed batch of %d", c.K, c.M, got.Micro*c.M)
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	testkit.Is(t, lab.MakeMissing(ctx, "scale", records.New(records.Key{}), progress.Silent{}, s.Jobs()), context.Canceled)
}

// Scales whose networks are compiled once have the samples that each has alone.
func TestJobsOfVariedScales(t *testing.T) {
	s := cellstest.SmallScale(t)
	half := testkit.Must(accelerator.ParseVariation("half the arithmetic rate"))(t)
	varied := s.Varied(half)
	made := func(jobs []lab.Job) map[string]string {
		log := records.New(records.Key{})
		testkit.NoError(t, lab.MakeMissing(t.Context(), "scale", log, progress.Silent{}, jobs))
		all := map[string]string{}
		for name, r := range log.Samples {
			all[name] = string(r.Data)
		}
		return all
	}
	own, other := made(cells.JobsOf(s)), made(cells.JobsOf(varied))
	different := 0
	for name, got := range made(cells.JobsOf(s, varied)) {
		testkit.Equal(t, got, cmp.Or(own[name], other[name]), "%s", name)
		if own[name] == "" && got != own[strings.Replace(name, "/"+half.Name, "", 1)] {
			different++
		}
	}
	if different < len(other)/2 {
		t.Errorf("%d of %d samples are others at half the rate", different, len(other))
	}
}
