package experiments

import (
	"strings"
	"testing"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
)

// What measuring and reporting rely on is refused when the spec is loaded.
func TestSpecsThatCannotRun(t *testing.T) {
	for _, c := range []struct{ id, old, replacement, want string }{
		{"table2", "m: [1, 4, 32]", "m: [1, 4]", "host_m: want one of m, and 2 among k"},
		{"table2", "k: [2, 4, 8]", "k: [4, 8]", "host_m: want one of m, and 2 among k"},
		{"table2-amoebanet", "k: [2, 4, 8]", "k: [4, 8]", "base: want the cell of k and m"},
		{"table2-modelled", "id: amoebanet\n", "id: ../../../../evil/x\n", `networks.0.id: "../../../../evil/x": want lower-case`},
		{"delayed-reduction", "image: 17, classes: 5", "image: 17, classes: 0", "profiles.smoke.training.model: amoebanet: classes is 0"},
		{"figure3", "{name: Pipeline-8, k: 8, paper: 3.442}", "{name: Pipeline-8, k: 800, paper: 3.442}", "800 partitions of"},
		{"table1", "layers_up_to: 512", "layers_up_to: 2", "no network of the grid has layers for 8 partitions"},
		{"translation", "optimizer: adam", "optimizer: adam\n      lr_schedule: never", "profiles.smoke.training: "},
	} {
		text := suitetest.Edited(t, strings.ReplaceAll(c.id, "-", "_")+".yaml", c.old, c.replacement)
		_, err := Load(c.id, suite.SpecFile{Name: "x.yaml", Experiment: c.id, Text: text})
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %s", c.id, c.replacement, err, c.want)
		}
	}
}

// What the program's own specs say can run, in every profile.
func TestOwnSpecsCanRun(t *testing.T) {
	for _, e := range experiments {
		t.Run(e.id, func(t *testing.T) {
			loaded, err := e.load()
			if err != nil {
				t.Fatal(err)
			}
			if err := suite.CheckRuns(loaded, suite.SpecFile{Name: e.id}); err != nil {
				t.Error(err)
			}
		})
	}
}
