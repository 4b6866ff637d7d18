package simulate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/planner"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// smallChip writes the file of an accelerator with a memory.
func smallChip(t *testing.T, memory string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chip.yaml")
	text := "name: chip\nflops: {f32: 1e12}\nbandwidth: 1e11\noverhead: 1e-6\nlink: {bandwidth: 1e10}\nmemory: " + memory + "\n"
	testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A plan is what simulate says of it, fits, and no way to cut by modelled time
// that fits is faster: of one replica, or of all numbers of replicas.
func TestPlanIsTheBest(t *testing.T) {
	const keep = 12
	language := train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32}
	images := train.Model{Name: "resnet50", Width: 4, Image: 64, Classes: 10}
	for _, test := range []struct {
		name     string
		model    train.Model
		memory   string
		within   bool // memory matters
		replicas int
		divided  bool
		scope    gpipe.Scope
	}{
		{"one replica", language, "1GiB", false, 1, false, gpipe.ReplicaScope},
		{"one replica, little memory", language, "5MiB", true, 1, false, gpipe.ReplicaScope},
		{"replicas", language, "1GiB", false, 0, false, gpipe.ReplicaScope},
		{"replicas, little memory", language, "5MiB", true, 0, false, gpipe.ReplicaScope},
		{"replicas, divided updates, little memory", language, "4MiB", true, 0, true, gpipe.ReplicaScope},
		{"batch norm over replicas, little memory", images, "6MiB", true, 0, false, gpipe.AllScope},
		{"batch norm over pairs of replicas", images, "1GiB", false, 0, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.scope == gpipe.AllScope {
				testkit.CI(t) // a network of fifty layers once in make test
			}
			s := Simulating{Model: test.model, Accelerator: smallChip(t, test.memory), Batch: 16, Optimizer: "adam", DType: graph.F32}
			s.Setup.BNScope = test.scope
			if test.divided {
				s.Zero = 1
			}
			plan := testkit.Must(Planning{Simulating: s, Devices: 4, Replicas: test.replicas, Keep: keep}.Run(t.Context(), progress.Silent{}))(t)
			if len(plan.Plans) != keep {
				t.Fatalf("%d plans, want %d", len(plan.Plans), keep)
			}
			for i, c := range plan.Plans {
				if i > 0 && c.ExamplesPerSecond > plan.Plans[i-1].ExamplesPerSecond {
					t.Errorf("plan %d is better than the one before", i)
				}
				r := planned(t, s, c)
				testkit.Equal(t, r.Metrics, c.Metrics, "metrics %+v, simulated", c.Metrics)
				if !r.Fits || math.Abs(r.ExamplesPerSecond-c.ExamplesPerSecond) > 1e-9*r.ExamplesPerSecond {
					t.Errorf("plan %+v, simulated %v examples/s, fits: %v", c, r.ExamplesPerSecond, r.Fits)
				}
			}
			var fit []float64 // what simulate finds
			not := 0
			for _, way := range [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}} {
				if test.replicas == 1 && way[0] > 1 || test.scope > 1 && way[0]%int(test.scope) != 0 {
					continue
				}
				for m := 1; m <= s.Batch/way[0]; m *= 2 {
					for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
						if m == 1 && c == schedule.ExceptLast {
							continue // the same as never
						}
						one := s
						one.Setup = train.Setup{
							Replicas: way[0], Partitions: way[1], MicroBatches: m,
							Checkpoint: c, Cost: train.Time, BNScope: test.scope,
						}
						r := testkit.Must(one.Run(t.Context()))(t)
						if !r.Fits {
							not++
							continue
						}
						fit = append(fit, r.ExamplesPerSecond)
					}
				}
			}
			if len(fit) < keep || (not > 0) != test.within {
				t.Fatalf("%d fit and %d do not: the test is no test", len(fit), not)
			}
			noneIsBetter(t, plan.Plans, fit)
			if plan.Dismissed == 0 {
				t.Error("nothing is dismissed: the test is no test")
			}
		})
	}
}

// planned simulates a plan.
func planned(t *testing.T, s Simulating, c Planned) *Simulation {
	t.Helper()
	s.Setup.Replicas, s.Setup.Partitions, s.Setup.MicroBatches, s.Setup.Balance = c.R, c.K, c.M, c.Partition
	s.Setup.Checkpoint = testkit.Must(schedule.ParseCheckpoint(c.Checkpoint))(t)
	return testkit.Must(s.Run(t.Context()))(t)
}

// A search over T, K, V, M, R, ZeRO, recomputation and all schedules together finds what simulating all of them
// finds, and its plans are what simulate says: with enough memory and with little, within a node and
// over eight of them.
func TestPlanOfAClusterIsTheBest(t *testing.T) {
	small := train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 512, Seq: 32}
	planOfACluster(t, small, smallChip(t, "1GiB"), 4, 8, false)
	planOfACluster(t, small, smallChip(t, "3MiB"), 4, 8, true)
}

func TestPlanOfManyNodesIsTheBest(t *testing.T) {
	testkit.Deep(t)
	file := smallChip(t, "4MiB")
	text := string(testkit.Must(os.ReadFile(file))(t)) + "far_link: {devices: 8, bandwidth: 1e9}\n"
	testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	model := train.Model{Name: train.LanguageModel, Layers: 14, Dim: 64, FF: 256, Heads: 8, Vocab: 512, Seq: 32}
	planOfACluster(t, model, file, 64, 64, true)
}

// planOfACluster compares a search with all ways on devices that are modelled by a file. Within says
// that some ways do not fit.
func planOfACluster(t *testing.T, model train.Model, file string, devices, batch int, within bool) {
	const keep = 8
	s := Simulating{Model: model, Accelerator: file, Batch: batch, Optimizer: "adam", DType: graph.F32, Accounting: gpipe.FullAccounting}
	s.Precision, s.SequenceParallel, s.KeepScores = gpipe.BF16Weights, true, true // which selective recomputation does not keep
	plan := testkit.Must(Planning{
		Simulating: s, Devices: devices, Keep: keep, Schedules: synchronous(t),
		Search: Search{Tensor: true, Zero: true, Recompute: true},
	}.Run(t.Context(), progress.Silent{}))(t)
	if len(plan.Plans) != keep || plan.Dismissed == 0 || (plan.Unfit > 0) != within {
		t.Fatalf("%d plans, %d dismissed, %d do not fit: the test is no test", len(plan.Plans), plan.Dismissed, plan.Unfit)
	}
	one := func(c planner.Candidate) *Simulation {
		of := s
		of.Tensor, of.Zero, of.Recompute, of.SequenceParallel = c.T, c.Zero, testkit.Must(gpipe.ParseRecompute(c.Recompute))(t), c.T > 1
		of.Setup = train.Setup{
			Replicas: c.R, Partitions: c.K, MicroBatches: c.M, Schedule: testkit.Must(schedule.Parse(c.Schedule))(t), Chunks: c.Chunks,
			Cost: train.Time, Balance: c.Partition,
		}
		return testkit.Must(of.Run(t.Context()))(t)
	}
	for i, c := range plan.Plans {
		if r := one(c.Candidate); !r.Fits || !near(r.StepSeconds, c.StepSeconds) || !near(r.BubbleFraction, c.BubbleFraction) || r.Metrics != c.Metrics {
			t.Errorf("plan %d: %+v, simulated %v s, fits: %v, metrics %+v", i, c, r.StepSeconds, r.Fits, r.Metrics)
		}
	}
	var fit []float64 // examples a second of all ways that do
	in := model.Input(batch)
	for tensor := 1; tensor <= min(devices, 8, model.Heads); tensor *= 2 {
		of := s
		of.Tensor, of.SequenceParallel, of.Setup = tensor, tensor > 1, train.Setup{Replicas: 1, Partitions: 1, MicroBatches: 1}
		p := testkit.Must(of.Pipeline(t.Context(), in))(t)
		how := of.Modelling()
		how.Brief, how.Costs = true, &gpipe.Costs{}
		step := func(c planner.Candidate) float64 { // in seconds; 0: it does not fit
			p, how := p, how
			p.Replicas, p.Groups, p.Partitions, p.MicroBatches, p.Chunks = c.R, c.R, c.K, c.M, c.Chunks
			p.Schedule = testkit.Must(schedule.Parse(c.Schedule))(t)
			how.Zero, how.Recompute = c.Zero, testkit.Must(gpipe.ParseRecompute(c.Recompute))(t)
			return testkit.Must(p.Simulate(in, how))(t).Seconds
		}
		for r := 1; r*tensor <= devices; r *= 2 {
			for k := 1; r*tensor*k <= devices && k <= model.Layers+2; k *= 2 {
				for _, seconds := range fitting(step, planner.Candidate{R: r, K: k}, batch, model.Layers+2) {
					fit = append(fit, float64(batch)/seconds)
				}
			}
		}
	}
	noneIsBetter(t, plan.Plans, fit)
}

// noneIsBetter compares plans with the examples a second of all ways that fit.
func noneIsBetter(t *testing.T, plans []Planned, fit []float64) {
	t.Helper()
	slices.Sort(fit)
	slices.Reverse(fit)
	for i, c := range plans {
		if fit[i] > c.ExamplesPerSecond*(1+1e-9) {
			t.Errorf("plan %d makes %v examples/s, simulate finds %v", i, c.ExamplesPerSecond, fit[i])
		}
	}
}

// synchronous are the schedules that a cluster may have.
func synchronous(t *testing.T) (all []schedule.Schedule) {
	for _, name := range schedule.Names() {
		all = append(all, testkit.Must(schedule.Parse(name))(t))
	}
	return all
}

// fitting returns the seconds of every way that fits with a way's R and K.
func fitting(step func(planner.Candidate) float64, c planner.Candidate, batch, layers int) (fit []float64) {
	for c.M = 1; c.M <= batch/c.R; c.M *= 2 {
		for _, c.Recompute = range []string{"none", "selective", "full"} {
			for c.Zero = range 4 {
				for _, c.Schedule = range schedule.Names() {
					for c.Chunks = 1; c.Chunks*c.K <= layers; c.Chunks *= 2 {
						_, none := schedule.Place(c.Schedule, c.K, c.Chunks, c.M)
						of1F1B := c.Schedule == schedule.Interleaved.String() && (c.Chunks == 1 || c.K == 1)
						if c.Zero > 0 && c.R == 1 || of1F1B || none != nil {
							continue // the same as ZeRO 0 or as 1f1b, or there is no such schedule
						}
						if seconds := step(c); seconds > 0 {
							fit = append(fit, seconds)
						}
					}
				}
			}
		}
	}
	return fit
}

// A search over 1,024 devices simulates one replica of those that are alike, and its best
// plan is what simulate says.
func TestPlanOfAPod(t *testing.T) {
	model := train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32}
	s := Simulating{Model: model, Accelerator: smallChip(t, "5MiB"), Batch: 1 << 15, Optimizer: "adam", DType: graph.F32, AllReduce: reduction.Torus}
	plan := testkit.Must(Planning{Simulating: s, Devices: 1024, Keep: 1}.Run(t.Context(), progress.Silent{}))(t)
	testkit.Equal(t, len(plan.Plans), 1, "plans")
	best := plan.Plans[0]
	if best.R*best.K <= 512 || best.R*best.K > 1024 {
		t.Errorf("%d x %d devices, want more than half of 1024", best.R, best.K)
	}
	s.Torus = map[int][2]int{1024: {32, 32}, 512: {32, 16}, 256: {16, 16}, 128: {16, 8}}[best.R]
	if r := planned(t, s, best); !r.Fits || r.StepSeconds != best.StepSeconds {
		t.Errorf("plan %+v, simulated %v s, fits: %v", best, r.StepSeconds, r.Fits)
	}
	if plan.Simulated > 100 || plan.Dismissed < 100 {
		t.Errorf("%d simulated, %d dismissed: the bounds decide too little", plan.Simulated, plan.Dismissed)
	}
}

func TestPlanNothingFits(t *testing.T) {
	model := train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32}
	s := Simulating{Model: model, Accelerator: smallChip(t, "1MiB"), Batch: 4, Optimizer: "adam", DType: graph.F32}
	nearest := func(s Simulating) *planner.Candidate {
		t.Helper()
		plan := testkit.Must(Planning{Simulating: s, Devices: 2, Keep: 3}.Run(t.Context(), progress.Silent{}))(t)
		testkit.Equal(t, len(plan.Plans), 0, "plans")
		return plan.Nearest
	}
	if got := nearest(s); got != nil {
		t.Errorf("parameters that do not fit: %+v", got)
	}
	s.Accelerator = smallChip(t, "2300KiB")
	if got := nearest(s); got == nil || got.LacksBytes <= 0 {
		t.Errorf("activations that do not fit: %+v", got)
	}
	cluster := s // whose search times no step that does not fit, but for the nearest
	cluster.Accelerator = smallChip(t, "3800KiB")
	cluster.Precision, cluster.Recompute, cluster.Accounting = gpipe.BF16Weights, gpipe.RecomputeNone, gpipe.FullAccounting
	got := nearest(cluster)
	if r := planned(t, cluster, Planned{Candidate: *got}); r.Fits || r.StepSeconds != got.StepSeconds || r.BubbleFraction != got.BubbleFraction {
		t.Errorf("on a cluster the nearest is %+v, simulated %v s, bubble %v, fits: %v", *got, r.StepSeconds, r.BubbleFraction, r.Fits)
	}
	var wrong *failure.UsageError
	_, err := Planning{Simulating: s, Keep: 3}.Run(t.Context(), progress.Silent{})
	testkit.Equal(t, errors.As(err, &wrong), true, "no devices: a mistake of usage: %v", err)
	s.DType = graph.BF16
	testkit.Refused((Planning{Simulating: s, Devices: 2, Keep: 3}).Run(t.Context(), progress.Silent{}))(t)
}
