package experiments

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

func TestSpecErrorsSayWhatIsAllowed(t *testing.T) {
	labtest.CheckRefused(t, gpipe.Paper.Experiment("delayed-reduction"), [][3]string{
		{"seed: 1", "sed: 1", "x.yaml:9:1: unknown field sed: want experiment, kind, title, finding, source, discard, seed, design, margin, level, metric, whole, baselines, watch, micro_batch, within, data, setup, arms, pairs, tables, plots, bars, panels, profiles"},
		{"    seeds: [1, 2]", "    seds: [1, 2]", "x.yaml:48:5: profiles.smoke: unknown field seds: want expected, seeds, pilots, data, sets, pace, until, training, arms"},
		{"filters: 8, image: 17", "filter: 8, image: 17", "unknown field filter: want name, layers, dim"},
		{"    seeds: [1, 2]", "    seeds: [1, two]", "x.yaml:48:16: profiles.smoke.seeds.1: \"two\": want a whole number of 1 or more"},
		{"seed: 1", "seed: -1", "x.yaml:9:7: seed: \"-1\": want a whole number of 1 or more"},
		{"      steps: 5", "      steps: [5]", "a list: want a whole number"},
		{"seed: 1", "seed: 1.9", "x.yaml:9:7: seed: \"1.9\": want a whole number of 1 or more"},
		{"seed: 1", "seed: ~", "x.yaml:9:7: seed: nothing: want a whole number of 1 or more"},
		{"seed: 1", "seed: 0x1p3", "x.yaml:9:7: seed: \"0x1p3\": want"},
		{"seed: 1\n", "", "x.yaml:3:1: no seed: want a whole number of 1 or more"},
		{"    seeds: [1, 2]", "    seeds: [1, 2, 1]", "x.yaml:48:19: profiles.smoke.seeds.2: this entry is there already, as entry 0: want each once"},
		{"    seeds: [1, 2]", "    seeds: [1, 0x1]", "profiles.smoke.seeds.1: this entry is there already"},
		{"    seeds: [1, 2]", "    seeds: []", "profiles.smoke: no seeds: want at least one"},
		{"    seeds: [1, 2]", "    seeds: [1, ~]", "profiles.smoke.seeds.1: nothing: want a whole number"},
		{"      lr: 0.02", "      lr: .nan", "\".nan\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: .inf", "\".inf\": want a number above 0 to 1000000000"},
		{"      lr: 0.02", "      lr: yes", "\"yes\": want a number above 0"},
		{"    expected: 5s", "    expected: [5s]", "want a duration up to 10000h, such as 90s or 3m"},
		{"checkpoint: never,", "checkpoint: sometimes,", "setup.checkpoint: unknown"},
		{"title: \"Delayed", "title: \"Dela\\eyed", "title: \"Dela\\x1byed"},
		{"title: \"Delayed", "title: \"Dela\\nyed", "want a line of text without control characters"},
		{"title:", "\"tit\\ele\":", "unknown field \"tit\\x1ble\": want experiment"},
		{"profiles:", "profiles: &p\n  full: *p", "profiles.full: unknown field full"},
	})
}

// A spec of one's own runs instead of the one in the program, under a key of its
// own.
func TestSpecFile(t *testing.T) {
	raw := gpipe.Paper.Experiment("delayed-reduction").Spec()
	name := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		testkit.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	run := func(only ...string) (ids []string, key records.Key, err error) {
		r := Reproducing{Profile: "smoke", Only: only, Spec: name}
		loaded, err := r.Load()
		for _, e := range loaded.list {
			ids, key = append(ids, e.ID()), e.Key("smoke")
		}
		return ids, key, err
	}
	write(strings.Replace(raw, "seeds: [1, 2]", "seeds: [5]", 1))
	ids, k, err := run()
	testkit.NoError(t, err)
	testkit.EqualAll(t, ids, []string{"delayed-reduction"})
	if testkit.Must(Load("delayed-reduction"))(t).Key("smoke").Spec == k.Spec {
		t.Error("the same key")
	}
	caption := ""
	err = Reproducing{Profile: "smoke", Spec: name}.Run(context.Background(), progress.Silent{}, func(_ lab.Experiment, r *lab.Report) error {
		caption = r.Tables[0].Caption[1]
		return nil
	})
	testkit.NoError(t, err)
	testkit.Has(t, caption, "trained 1 times")
	_, _, err = run("table2")
	testkit.Fails(t, err, "is a spec of delayed-reduction: want one of table2")
	for _, c := range []struct{ text, want string }{
		{strings.Replace(raw, "experiment: delayed-reduction", "experiment: figure9", 1), ":3:13: experiment \"figure9\": want one of table1, "},
		{"", ":1:1: experiment \"\": want one of"},
		{"a: [", "mine.yaml:1"},
		{strings.Replace(raw, "seed: 1", "sed: 1", 1), "mine.yaml:9:1: unknown field sed"},
	} {
		write(c.text)
		_, _, err := run()
		testkit.Fails(t, err, c.want)
	}
}

// Whatever is in a spec, it is taken or refused with its file and in one line.
func FuzzSpec(f *testing.F) {
	of := []lab.Definition{gpipe.Paper.Experiment("delayed-reduction"), gpipe.Paper.Experiment("consistency-accuracy"), gpipe.Paper.Experiment("table3")}
	for _, d := range of {
		f.Add(d.Spec())
	}
	for _, text := range []string{"", "a", "- 1", "seed: [", "seed: {a: 1}", "profiles: {smoke: 1}", "k: [0]\nm: [-1]", "&a [*a]", "paper: ~", "\xff", "setups: [{k: 1e9}]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range of {
			_, err := d.Load(lab.SpecFile{Name: "x.yaml", Text: []byte(text)})
			if err != nil {
				testkit.FailsFirst(t, err, "x.yaml:")
			}
		}
	})
}
