package mlperf

import (
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/train"
)

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
			ours := testkit.Must(updateProportion(of.Model, of.Examples))(t)
			paper := testkit.Must(updateProportion(n.Of, n.Examples))(t)
			testkit.Near(t, ours/paper, 1, 0.1, "%s, %s: %.3g parameters for a million operations, the paper's %.3g: ratio", updateMeasuredProfile, n.ID, ours, paper)
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
	testkit.NoError(t, timed.InThisProcess(t.Context(), r, log, progress.Silent{}))
	report := testkit.Must(x.Report(log, nil))(t)
	for _, row := range report.Tables[0].Rows {
		testkit.Equal(t, row[report.Tables[0].Column("as planned")].Text, "yes", "%v: as planned", row[:3])
	}
}

func TestUpdateMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("update-measured"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"replicas: [1, 2, 4, 8]", "replicas: [1, 8, 4]", "ascending"},
		{"      - {model: {name: resnet50, width: 4, image: 32, classes: 125}, examples: 4}\n", "", "1: want one for each of 2 networks"},
	})
}
