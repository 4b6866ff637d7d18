package simulation

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/usage"
	"gpipebench/nn/graph"
)

// smallChip writes the file of an accelerator with a memory.
func smallChip(t *testing.T, memory string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chip.yaml")
	text := "name: chip\nflops: {f32: 1e12}\nbandwidth: 1e11\noverhead: 1e-6\nlink: {bandwidth: 1e10}\nmemory: " + memory + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A plan is what simulate says of it, fits, and no way to cut by modelled time
// that fits is faster.
func TestPlanIsTheBest(t *testing.T) {
	const keep = 12
	model := workload.Model{Name: workload.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32}
	for _, test := range []struct {
		memory string
		within bool // memory matters
	}{{"1GiB", false}, {"5MiB", true}} {
		s := Simulating{Model: model, Accelerator: smallChip(t, test.memory), Batch: 16, Optimizer: "adam", DType: graph.F32}
		plan, err := Planning{Simulating: s, Devices: 4, Keep: keep}.Run(t.Context(), progress.Silent{})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Plans) != keep {
			t.Fatalf("%s: %d plans, want 12", test.memory, len(plan.Plans))
		}
		for i, c := range plan.Plans {
			if i > 0 && c.ExamplesPerSecond > plan.Plans[i-1].ExamplesPerSecond {
				t.Errorf("%s: plan %d is better than the one before", test.memory, i)
			}
			again := s
			again.Setup.Partitions, again.Setup.MicroBatches, again.Setup.Balance = c.K, c.M, c.Partition
			if again.Setup.Checkpoint, err = schedule.ParseCheckpoint(c.Checkpoint); err != nil {
				t.Fatal(err)
			}
			r, err := again.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !r.Fits || math.Abs(r.ExamplesPerSecond-c.ExamplesPerSecond) > 1e-9*r.ExamplesPerSecond {
				t.Errorf("%s: plan %+v, simulated %v examples/s, fits: %v", test.memory, c, r.ExamplesPerSecond, r.Fits)
			}
		}
		var fit []float64 // what simulate finds
		not := 0
		for _, k := range []int{1, 2, 4} {
			for _, m := range []int{1, 2, 4, 8, 16} {
				for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
					one := s
					one.Setup = workload.Setup{Partitions: k, MicroBatches: m, Checkpoint: c, Cost: workload.Time}
					r, err := one.Run(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if !r.Fits {
						not++
						continue
					}
					fit = append(fit, r.ExamplesPerSecond)
				}
			}
		}
		if len(fit) < keep || (not > 0) != test.within {
			t.Fatalf("%s: %d fit and %d do not: the test is no test", test.memory, len(fit), not)
		}
		slices.Sort(fit)
		slices.Reverse(fit)
		for i, c := range plan.Plans {
			if fit[i] > c.ExamplesPerSecond*(1+1e-9) {
				t.Errorf("%s: plan %d makes %v examples/s, simulate finds %v", test.memory, i, c.ExamplesPerSecond, fit[i])
			}
		}
		if plan.Dismissed == 0 {
			t.Errorf("%s: nothing is dismissed: the test is no test", test.memory)
		}
	}
}

func TestPlanNothingFits(t *testing.T) {
	model := workload.Model{Name: workload.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32}
	s := Simulating{Model: model, Accelerator: smallChip(t, "1MiB"), Batch: 4, Optimizer: "adam", DType: graph.F32}
	plan, err := Planning{Simulating: s, Devices: 2, Keep: 3}.Run(t.Context(), progress.Silent{})
	if err != nil || len(plan.Plans) > 0 || plan.Nearest != nil {
		t.Errorf("parameters that do not fit: %+v, %v", plan, err)
	}
	s.Accelerator = smallChip(t, "2300KiB")
	plan, err = Planning{Simulating: s, Devices: 2, Keep: 3}.Run(t.Context(), progress.Silent{})
	if err != nil || len(plan.Plans) > 0 || plan.Nearest == nil || plan.Nearest.LacksBytes <= 0 {
		t.Errorf("activations that do not fit: %+v, %v", plan, err)
	}
	var wrong *usage.Error
	if _, err := (Planning{Simulating: s, Keep: 3}).Run(t.Context(), progress.Silent{}); !errors.As(err, &wrong) {
		t.Errorf("no devices: %v", err)
	}
	s.DType = graph.BF16
	if _, err := (Planning{Simulating: s, Devices: 2, Keep: 3}).Run(t.Context(), progress.Silent{}); err == nil {
		t.Error("a chip without bfloat16 models it")
	}
}
