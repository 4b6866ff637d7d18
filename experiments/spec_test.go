package experiments

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSpecErrorsSayWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"seed: 1", "sed: 1", "x.yaml:7:1: unknown field sed: want experiment, title, source, discard, seed, paper, paper_model, setup, profiles"},
		{"    seeds: [1, 2]", "    seds: [1, 2]", "x.yaml:19:5: profiles.smoke: unknown field seds: want expected, seeds, training"},
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
		{"seed: 1", "seed: \"\xff\"", "x.yaml:7:8: a byte that is no UTF-8"},
		{"profiles:", "profiles: &p\n  full: *p", "profiles.full: unknown field full"},
	} {
		d := &delayed{}
		err := decodeSpec("x.yaml", edited(t, "delayed_reduction.yaml", c.old, c.replacement), &d.spec, d.check)
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.replacement, err, c.want)
		}
	}
}

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
		text := edited(t, strings.ReplaceAll(c.id, "-", "_")+".yaml", c.old, c.replacement)
		_, err := Load(c.id, SpecFile{Name: "x.yaml", Experiment: c.id, text: text})
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %s", c.id, c.replacement, err, c.want)
		}
	}
}

// edited is a spec of the program with the first old replaced.
func edited(t *testing.T, file, old, replacement string) []byte {
	t.Helper()
	raw, err := specFiles.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), old, replacement, 1)
	if text == string(raw) {
		t.Fatalf("%s has no %q", file, old)
	}
	return []byte(text)
}

// lineWith is the number of the first line of a spec that has a part in it.
func lineWith(text []byte, part string) int {
	return 1 + slices.IndexFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.Contains(l, strings.TrimSpace(part)) })
}

// A spec of one's own runs instead of the one in the program, under a key of its
// own.
func TestSpecFile(t *testing.T) {
	raw, err := specFiles.ReadFile("delayed_reduction.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(only ...string) (ids []string, key Key, err error) {
		r := Reproducing{Profile: "smoke", Only: only, Spec: name}
		list, _, err := r.load()
		for _, e := range list {
			ids, key = append(ids, e.ID()), e.Key("smoke")
		}
		return ids, key, err
	}
	write(strings.Replace(string(raw), "seeds: [1, 2]", "seeds: [5]", 1))
	ids, k, err := run()
	if err != nil || len(ids) != 1 || ids[0] != "delayed-reduction" {
		t.Fatalf("%q, %v", ids, err)
	}
	own, err := Load("delayed-reduction")
	if err != nil || own.Key("smoke").Spec == k.Spec {
		t.Errorf("the same key, %v", err)
	}
	seeds := 0
	err = Reproducing{Profile: "smoke", Spec: name}.Run(context.Background(), Silent{}, func(_ Experiment, r *Report) error {
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
		{strings.Replace(string(raw), "experiment: delayed-reduction", "experiment: figure9", 1), ":3:13: experiment \"figure9\": want one of consistency, "},
		{"", ":1:1: experiment \"\": want one of"},
		{"a: [", "mine.yaml:1"},
		{strings.Replace(string(raw), "seed: 1", "sed: 1", 1), "mine.yaml:7:1: unknown field sed"},
	} {
		write(c.text)
		if _, _, err := run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Whatever is in a spec, it is taken or refused with its file and in one line.
func FuzzSpec(f *testing.F) {
	for _, name := range []string{"delayed_reduction.yaml", "table2_amoebanet.yaml", "table3.yaml"} {
		raw, err := specFiles.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	for _, text := range []string{"", "a", "- 1", "seed: [", "seed: {a: 1}", "profiles: {smoke: 1}", "k: [0]\nm: [-1]", "&a [*a]", "paper: ~", "\xff", "setups: [{k: 1e9}]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, a, s := &delayed{}, &accuracy{}, &table3{}
		for _, err := range []error{
			decodeSpec("x.yaml", []byte(text), &d.spec, d.check),
			decodeSpec("x.yaml", []byte(text), &a.spec, a.check),
			decodeSpec("x.yaml", []byte(text), &s.spec, s.check),
		} {
			if err != nil && (!strings.HasPrefix(err.Error(), "x.yaml:") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
