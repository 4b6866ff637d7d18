package experiments

import (
	"testing"

	"gpipebench/experiments/beyond"
	"gpipebench/experiments/bubbles"
	"gpipebench/experiments/densify"
	"gpipebench/experiments/gpipe"
	"gpipebench/experiments/mlperf"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
)

// What measuring and reporting rely on is refused when the spec is loaded.
func TestSpecsThatCannotRun(t *testing.T) {
	for _, c := range []struct {
		of                     lab.Definition
		old, replacement, want string
	}{
		{gpipe.Paper.Experiment("table2-amoebanet"), "k: [2, 4, 8]", "k: [4, 8]", "base: no cell has K = 2, M = 1"},
		{gpipe.Paper.Experiment("table2-modelled"), "id: amoebanet\n", "id: ../../../../evil/x\n", `networks.0.id: "../../../../evil/x": want lower-case`},
		{gpipe.Paper.Experiment("delayed-reduction"), "image: 17, classes: 5", "image: 16, classes: 5", "profiles.smoke.training: amoebanet: images of 16 pixels are too small"},
		{gpipe.Paper.Experiment("figure3"), "{name: Pipeline-8, k: 8, paper: 3.442}", "{name: Pipeline-8, k: 800, paper: 3.442}", "800 partitions of"},
		{gpipe.Paper.Experiment("figure3"), "{name: Pipeline-8, k: 8, paper: 3.442}", "{name: Pipeline-8, k: 8, paper: four}", "want a number above 0 in digits"},
		{gpipe.Paper.Experiment("table1"), "layers_up_to: 512", "layers_up_to: 2", "no network of the grid has layers for 8 partitions"},
		{beyond.Paper.Experiment("replicas-scaling"), "replicas: [1, 2, 4, 8]", "replicas: [1, 2, 6]", "profiles.smoke: 6 groups on 2 replicas"},
		{beyond.Paper.Experiment("processes"), "{k: 1, r: 4}", "{k: 1, r: 3}", "4 groups on 3 replicas"},
		{mlperf.Paper.Experiment("evaluation-measured"), "replicas: [1, 2, 4, 8]", "replicas: [1, 3, 8]", "8 groups on 3 replicas"},
		{bubbles.Paper.Experiment("bubbles-emulated"), "    batch: 16\n    m: 8", "    batch: 16\n    m: 7", "profiles.quick: schedule: dualpipe-v of 7 micro-batches on 4 devices"},
		{densify.Paper.Experiment("densify-weak"), "m: 1\n", "m: 3\n", "profiles.smoke: 3 micro-batches of a mini-batch of 2"},
		{gpipe.Paper.Experiment("translation"), "optimizer: adam", "optimizer: adam\n      lr_schedule: never", "profiles.smoke.training: "},
	} {
		_, err := Load(c.of.ID, lab.SpecFile{Name: "x.yaml", Experiment: c.of.ID, Text: labtest.Edited(t, c.of, c.old, c.replacement)})
		testkit.FailsFirst(t, err, "x.yaml:", c.want)
	}
}

// What the program's own specs say can run, in every profile.
func TestOwnSpecsCanRun(t *testing.T) {
	testkit.CI(t)
	for _, d := range List() {
		t.Run(d.ID, func(t *testing.T) {
			loaded := testkit.Must(d.Load())(t)
			testkit.Equal(t, lab.CheckRuns(loaded, lab.SpecFile{Name: d.ID}, traced), nil)
		})
	}
}
