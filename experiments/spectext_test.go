package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe/consistency/accuracy"
	"gpipebench/experiments/gpipe/delayed"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

func TestSpecErrorsSayWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"seed: 1", "sed: 1", "x.yaml:7:1: unknown field sed: want experiment, kind, title, source, discard, seed, paper, paper_model, setup, profiles"},
		{"    seeds: [1, 2]", "    seds: [1, 2]", "x.yaml:19:5: profiles.smoke: unknown field seds: want expected, seeds, added_seeds, training"},
		{"filters: 8, image: 17", "filter: 8, image: 17", "unknown field filter: want name, layers, dim"},
		{"    seeds: [1, 2]", "    seeds: [1, two]", "x.yaml:19:16: profiles.smoke.seeds.1: \"two\": want a whole number of 1 or more"},
		{"    seeds: [1, 2]", "    seeds: 1", "x.yaml:19:12: profiles.smoke.seeds: \"1\": want a list"},
		{"seed: 1", "seed: -1", "x.yaml:7:7: seed: \"-1\": want a whole number of 1 or more"},
		{"      steps: 5", "      steps: [5]", "a list: want a whole number"},
		{"paper: 4", "paper: four", "four"},
		{"seed: 1", "seed: 1\nseed: 2", "x.yaml:8:1: field seed is there twice: want it once"},
		{"seed: 1", "seed: 1.9", "x.yaml:7:7: seed: \"1.9\": want a whole number of 1 or more"},
		{"seed: 1", "seed: ~", "x.yaml:7:7: seed: nothing: want a whole number of 1 or more"},
		{"seed: 1", "seed: 0x1p3", "x.yaml:7:7: seed: \"0x1p3\": want"},
		{"seed: 1\n", "", "x.yaml:3:1: no seed: want a whole number of 1 or more"},
		{"    seeds: [1, 2]", "    seeds: [1, 2, 1]", "x.yaml:19:19: profiles.smoke.seeds.2: this entry is there already, as entry 0: want each once"},
		{"    seeds: [1, 2]", "    seeds: [1, 0x1]", "profiles.smoke.seeds.1: this entry is there already"},
		{"    seeds: [1, 2]", "    seeds: []", "an empty list: want at least one entry"},
		{"    seeds: [1, 2]", "    seeds: [1, ~]", "profiles.smoke.seeds.1: nothing: want a whole number"},
		{"      lr: 0.02", "      lr: .nan", "\".nan\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: .inf", "\".inf\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: yes", "\"yes\": want a number above 0"},
		{"    expected: 5s", "    expected: [5s]", "want a duration up to 10000h, such as 90s or 3m"},
		{"checkpoint: never,", "checkpoint: sometimes,", "setup.checkpoint: unknown"},
		{"title: \"Delayed", "title: \"Dela\\eyed", "title: \"Dela\\x1byed"},
		{"title: \"Delayed", "title: \"Dela\\nyed", "want a line of text without control characters"},
		{"title:", "\"tit\\ele\":", "unknown field \"tit\\x1ble\": want experiment"},
		{"seed: 1", "seed: 1\n---\nseed: 2", "x.yaml:9:1: a second document: want one in a file"},
		{"seed: 1", "seed: 1\n--- [", "want YAML"},
		{"seed: 1", "seed: \"\xff\"", "x.yaml:7:8: a byte that is not UTF-8"},
		{"profiles:", "profiles: &p\n  full: *p", "profiles.full: unknown field full"},
	} {
		err := labtest.Refused(t, delayed.Definition, c.old, c.replacement)
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.replacement, err, c.want)
		}
	}
}

// A spec of one's own runs instead of the one in the program, under a key of its
// own.
func TestSpecFile(t *testing.T) {
	raw := delayed.Definition.Spec()
	name := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(only ...string) (ids []string, key records.Key, err error) {
		r := Reproducing{Profile: "smoke", Only: only, Spec: name}
		list, _, err := r.load()
		for _, e := range list {
			ids, key = append(ids, e.ID()), e.Key("smoke")
		}
		return ids, key, err
	}
	write(strings.Replace(raw, "seeds: [1, 2]", "seeds: [5]", 1))
	ids, k, err := run()
	if err != nil || len(ids) != 1 || ids[0] != "delayed-reduction" {
		t.Fatalf("%q, %v", ids, err)
	}
	own, err := Load("delayed-reduction")
	if err != nil || own.Key("smoke").Spec == k.Spec {
		t.Errorf("the same key, %v", err)
	}
	seeds := 0
	err = Reproducing{Profile: "smoke", Spec: name}.Run(context.Background(), progress.Silent{}, func(_ lab.Experiment, r *lab.Report) error {
		for _, table := range r.Tables {
			if table.ID == "delayed-reduction-runs" {
				seeds = len(table.Rows) / 2
			}
		}
		return nil
	})
	if err != nil || seeds != 1 {
		t.Errorf("%d seeds, %v", seeds, err)
	}
	if _, _, err := run("table2"); err == nil || !strings.Contains(err.Error(), "is a spec of delayed-reduction: want one of table2") {
		t.Error(err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(raw, "experiment: delayed-reduction", "experiment: figure9", 1), ":3:13: experiment \"figure9\": want one of table1, "},
		{"", ":1:1: experiment \"\": want one of"},
		{"a: [", "mine.yaml:1"},
		{strings.Replace(raw, "seed: 1", "sed: 1", 1), "mine.yaml:7:1: unknown field sed"},
	} {
		write(c.text)
		if _, _, err := run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Whatever is in a spec, it is taken or refused with its file and in one line.
func FuzzSpec(f *testing.F) {
	of := []lab.Definition{delayed.Definition, accuracy.Definition, table3.Definition}
	for _, d := range of {
		f.Add(d.Spec())
	}
	for _, text := range []string{"", "a", "- 1", "seed: [", "seed: {a: 1}", "profiles: {smoke: 1}", "k: [0]\nm: [-1]", "&a [*a]", "paper: ~", "\xff", "setups: [{k: 1e9}]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range of {
			_, err := d.Load(lab.SpecFile{Name: "x.yaml", Text: []byte(text)})
			if err != nil && (!strings.HasPrefix(err.Error(), "x.yaml:") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// What a spec of trainings must not be.
func TestTrialSpecs(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"margin: 5", "margin: 0", "x.yaml:%d:9: margin: \"0\": want a number above 0"},
		{"level: 0.05", "level: 0.5", "x.yaml:%d:8: level: \"0.5\": want a number above 0 to 0.499"},
		{"{k: 1, m: 1, checkpoint", "{k: 2, m: 1, checkpoint", "x.yaml:%d:5: setups.0: want K = 1"},
		{"{k: 2, m: 4, ", "{k: 2, m: 4, device: emulated, ", "x.yaml:%d:5: setups.1: trainings run beside"},
		{"seeds: [1, 2]\n", "seeds: []\n", "x.yaml:%d:12: profiles.smoke.seeds: an empty list: want at least one entry"},
	} {
		line := labtest.LineWith(labtest.Edited(t, accuracy.Definition, c.old, c.replacement), c.replacement)
		err := labtest.Refused(t, accuracy.Definition, c.old, c.replacement)
		if want := fmt.Sprintf(c.want, line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.replacement, err, want)
		}
	}
}
