package experiments

import (
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
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
		{gpipe.Paper.Experiment("table2-amoebanet"), "k: [2, 4, 8]", "k: [4, 8]", "base: want the cell of k and m"},
		{gpipe.Paper.Experiment("table2-modelled"), "id: amoebanet\n", "id: ../../../../evil/x\n", `networks.0.id: "../../../../evil/x": want lower-case`},
		{gpipe.Paper.Experiment("delayed-reduction"), "image: 17, classes: 5", "image: 17, classes: 0", "profiles.smoke.training.model: amoebanet: classes is 0"},
		{gpipe.Paper.Experiment("figure3"), "{name: Pipeline-8, k: 8, paper: 3.442}", "{name: Pipeline-8, k: 800, paper: 3.442}", "800 partitions of"},
		{gpipe.Paper.Experiment("table1"), "layers_up_to: 512", "layers_up_to: 2", "no network of the grid has layers for 8 partitions"},
		{gpipe.Paper.Experiment("translation"), "optimizer: adam", "optimizer: adam\n      lr_schedule: never", "profiles.smoke.training: "},
	} {
		_, err := Load(c.of.ID, lab.SpecFile{Name: "x.yaml", Experiment: c.of.ID, Text: labtest.Edited(t, c.of, c.old, c.replacement)})
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %s", c.of.ID, c.replacement, err, c.want)
		}
	}
}

// What the program's own specs say can run, in every profile.
func TestOwnSpecsCanRun(t *testing.T) {
	testkit.CI(t)
	for _, d := range List() {
		t.Run(d.ID, func(t *testing.T) {
			loaded, err := d.Load()
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.CheckRuns(loaded, lab.SpecFile{Name: d.ID}, traced); err != nil {
				t.Error(err)
			}
		})
	}
}
