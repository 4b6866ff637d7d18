package mlperf

import (
	"math"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/train"
)

// weak is a device on which an example takes the same time in every run.
func weak(run *timed.Run, _ int) float64 { return float64(run.Training.Batch) }

// Shares, what is expected of them, and memory are the arithmetic of given tasks: F and B
// take 3 units and an update the same time in every run.
func TestUpdateMeasuredReport(t *testing.T) {
	x := labtest.Loaded[*updateMeasured](t, Paper.Experiment("update-measured").Load)
	r, log := timedtest.Start(t, x)
	const ends = 1 << 20
	timedtest.FillRounds(t, log, r, ends, weak)
	report, err := x.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table := report.Tables[0]
	if want := len(x.Spec.Networks) * (2*len(x.Spec.Replicas) - 1); len(table.Rows) != want {
		t.Errorf("%d rows, want %d", len(table.Rows), want)
	}
	var whole float64 // state of one replica
	for _, row := range table.Rows {
		of := func(name string) lab.Value { return row[table.Column(name)] }
		replicas, divided := of("R").Numbers[0], row[1].Text == "divided"
		examples := of("mini-batch").Numbers[0] / replicas
		// Setup, update and, of several groups, sums take as long as each other.
		step := 3*(1<<24)*examples + 2*ends
		if replicas > 1 {
			step += ends
		}
		near := func(name string, want float64) {
			t.Helper()
			if got := of(name).Numbers[0]; math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%v: %s %v, want %v", row[:3], name, got, want)
			}
		}
		near("measured step", 1e-9*step)
		near("measured update", 100*ends/step)
		near("reference update", 100*ends/step)
		if divided {
			near("expected update", 100*ends/replicas/(step-ends+ends/replicas))
			near("measured whole / divided", 1)
		}
		if printed := len(of("paper, whole").Numbers) > 0; printed != (replicas == 8 && !divided) {
			t.Errorf("%v: the paper's figure %v", row[:3], of("paper, whole"))
		}
		// Divided, all replicas have the state of one, to cache lines.
		state, all := of("state").Numbers[0], of("state, all").Numbers[0]
		if !divided {
			whole = state
		}
		if !divided && all != replicas*state || divided && !(state < whole && math.Abs(all-whole) < 0.01*whole) {
			t.Errorf("%v: state %v, of all %v, undivided %v", row[:3], state, all, whole)
		}
		if of("as planned").Text != "no" { // the log's peaks are made up
			t.Errorf("%v: as planned: %v", row[:3], of("as planned"))
		}
	}
}

// updateProportion is a network's parameters for each million operations of a core's step, of
// which a backward pass has twice those of a forward pass.
func updateProportion(m train.Model, examples int) (float64, error) {
	layers, err := m.Build()
	if err != nil {
		return 0, err
	}
	loss, err := m.Loss(0)
	if err != nil {
		return 0, err
	}
	in := m.Input(1)
	p, err := train.Setup{Partitions: 1, MicroBatches: 1, Checkpoint: schedule.Never}.Uncut(layers, loss, in)
	if err != nil {
		return 0, err
	}
	d, err := p.Describe(in)
	if err != nil {
		return 0, err
	}
	var forward float64
	for _, l := range d.Layers {
		forward += float64(l.FLOPs)
	}
	return 1e6 * float64(d.Params) / (3 * forward * float64(examples)), nil
}

// The networks that a claim may rest on have the proportions of the paper's.
func TestUpdateMeasuredProportions(t *testing.T) {
	x := labtest.Loaded[*updateMeasured](t, Paper.Experiment("update-measured").Load)
	for _, updateMeasuredProfile := range []string{"quick", "full"} {
		for i, n := range x.Spec.Networks {
			of := x.Spec.Profiles[updateMeasuredProfile].Networks[i]
			ours, err := updateProportion(of.Model, of.Examples)
			if err != nil {
				t.Fatal(err)
			}
			paper, err := updateProportion(n.Of, n.Examples)
			if err != nil {
				t.Fatal(err)
			}
			if r := ours / paper; math.Abs(r-1) > 0.1 {
				t.Errorf("%s, %s: %.3g parameters for a million operations, the paper's %.3g: a ratio of %.3f", updateMeasuredProfile, n.ID, ours, paper, r)
			}
		}
	}
}

// Measuring leaves what a report needs, and devices use the memory that is planned.
func TestUpdateMeasuredMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := labtest.Loaded[*updateMeasured](t, Paper.Experiment("update-measured").Load)
	r, log := timedtest.Start(t, x)
	if err := timed.InThisProcess(t.Context(), r, log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	report, err := x.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range report.Tables[0].Rows {
		if got := row[report.Tables[0].Column("as planned")]; got.Text != "yes" {
			t.Errorf("%v: as planned: %v", row[:3], got)
		}
	}
}

func TestUpdateMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("update-measured"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"replicas: [1, 2, 4, 8]", "replicas: [1, 8, 4]", "ascending"},
		{"      - {model: {name: resnet50, width: 4, image: 32, classes: 125}, examples: 4}\n", "", "1 networks: want one for each of the 2"},
		{"examples: 4}", "examples: 0}", "want a whole number from 1"},
		{"optimizer: lars", "optimizer: magic", "unknown optimizer"},
	})
}
