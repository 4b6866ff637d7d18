package experiments

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// axes are the experiments whose commands have --k or --m, each with numbers that its spec lacks.
var axes = map[string]map[string][]int{
	"ablation":             {"k": {2, 4, 8, 16}, "m": {16}},
	"breakdown":            {"k": {2, 4, 8}, "m": {32}},
	"bubbles-emulated":     {"k": {2}},
	"calibrated":           {"k": {2, 4, 8, 16}, "m": {1, 4, 8, 32}},
	"densify-weak":         {"m": {2}},
	"figure3":              {"m": {16}},
	"processes-throughput": {"m": {2}},
	"replicas-scaling":     {"m": {4}},
	"table2":               {"k": {2, 4, 8, 16}, "m": {1, 4, 8, 32}},
	"table2-amoebanet":     {"k": {2, 4, 8, 16}, "m": {1, 4, 8, 32}},
	"table2-modelled":      {"k": {2, 4, 8, 16}, "m": {1, 4, 8, 32}},
	"table3":               {"k": {2, 4, 8, 16}, "m": {8, 32}},
	"unstated":             {"m": {4, 8}},
	"validation":           {"k": {2, 3, 4, 8}},
}

// Every spec with k or m at its top takes other numbers there, and nothing else in it changes. Where
// samples' names have them, the conditions are the same.
func TestAxes(t *testing.T) {
	var found []string
	for _, d := range List() {
		if !d.HasAxis("k") && !d.HasAxis("m") {
			continue
		}
		found = append(found, d.ID)
		own, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		spec := d.SpecFile()
		for axis, numbers := range axes[d.ID] {
			if spec, err = spec.With(axis, numbers); err != nil {
				t.Fatal(err)
			}
		}
		edited, err := d.Load(spec)
		if err != nil {
			t.Errorf("%v: %v", axes[d.ID], err)
			continue
		}
		if n := strings.Count(string(spec.Text), "#"); n != strings.Count(d.Spec(), "#") {
			t.Errorf("%s: %d comments are left of %d", d.ID, n, strings.Count(d.Spec(), "#"))
		}
		grid := slices.Contains([]string{"calibrated", "table2", "table2-amoebanet", "table2-modelled", "table3"}, d.ID)
		if own.Key("quick") == edited.Key("quick") || (own.Conditions("quick") == edited.Conditions("quick")) != grid {
			t.Errorf("%s: other K or M have the same key, or conditions that are not those of a grid", d.ID)
		}
		again := lab.SpecFile{Name: "again.yaml", Experiment: d.ID, Text: spec.Text}
		for axis := range axes[d.ID] {
			if again, err = again.With(axis, topNumbers(t, d, axis)); err != nil {
				t.Fatal(err)
			}
		}
		if same, err := d.Load(again); err != nil || same.Key("quick") != own.Key("quick") {
			t.Errorf("%s: its own K and M give another key, %v", d.ID, err)
		}
	}
	slices.Sort(found)
	if want := slices.Sorted(maps.Keys(axes)); !slices.Equal(found, want) {
		t.Errorf("experiments with k or m: %v, tried %v", found, want)
	}
}

// topNumbers returns the numbers of a spec's field.
func topNumbers(t *testing.T, d lab.Definition, axis string) []int {
	t.Helper()
	var top map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(d.Spec()), &top); err != nil {
		t.Fatal(err)
	}
	of, list := top[axis], []int{0}
	into := any(&list[0])
	if of.Kind == yaml.SequenceNode {
		into = &list
	}
	if err := of.Decode(into); err != nil {
		t.Fatal(err)
	}
	return list
}

// What a spec has no field for, or one number, is refused as a wrong usage, and so are cells that cannot be.
func TestAxesRefused(t *testing.T) {
	for want, r := range map[string]Reproducing{
		"k in the spec of table1: want an experiment whose spec has such a field": {Only: []string{"table1"}, K: []int{2}},
		"m in the spec of breakdown: want one number":                             {Only: []string{"breakdown"}, M: []int{2, 4}},
		"base: no cell has K = 2, M = 1":                                          {Only: []string{"table2"}, K: []int{4}},
		"64 micro-batches of 32 examples are not of one size":                     {Only: []string{"table2"}, M: []int{1, 64}},
		"k.1: this entry is there already":                                        {Only: []string{"table3"}, K: []int{2, 2}},
	} {
		if _, err := r.Specs(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A table with fewer cells than one that was measured is made of that one's samples, and a cell more
// of its modelled samples alone: what is timed is compared within one run.
func TestCellsAreUsedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("models Table 2")
	}
	dir, reference := t.TempDir(), t.TempDir()
	e, err := Load("table2")
	if err != nil {
		t.Fatal(err)
	}
	log, err := records.Open(records.File(reference, "table2"), e.Key("smoke"), false)
	if err != nil {
		t.Fatal(err)
	}
	repeated, err := e.(timed.Experiment).Repeated("smoke")
	if err != nil {
		t.Fatal(err)
	}
	timedtest.FillRounds(t, log, repeated.(*timed.Rounds), 0, timedtest.Even)
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	whole, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r := Reproducing{Profile: "smoke", Only: []string{"table2"}, Out: dir, Reference: reference, K: []int{2, 8}}
	p := &said{}
	var part *lab.Report
	if err := r.Run(t.Context(), p, func(_ lab.Experiment, made *lab.Report) error { part = made; return nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(p.lines), "24 of 24 samples are from runs with other K or M") {
		t.Errorf("it said %q", p.lines)
	}
	column := part.Tables[0].Column("measured")
	for _, row := range part.Tables[0].Printed() {
		same := slices.ContainsFunc(whole.Tables[0].Printed(), func(of []string) bool { return slices.Equal(of[:column+1], row[:column+1]) })
		if !same {
			t.Errorf("%q is not a row of the whole table", row)
		}
	}

	list, err := Reproducing{Profile: "smoke", Only: []string{"table2"}, K: []int{2, 4, 8, 16}}.load()
	if err != nil {
		t.Fatal(err)
	}
	log = records.New(list[0].Key("smoke"))
	if err := r.earlier(list[0], log); err != nil || len(log.Earlier) != 1 {
		t.Fatal(log.Earlier, err)
	}
	if repeated, err = list[0].Experiment.(timed.Experiment).Repeated("smoke"); err != nil {
		t.Fatal(err)
	}
	if err := log.TakeTimed(slices.Concat(repeated.Samples()...)); err != nil || log.Taken != 0 {
		t.Errorf("%d timed samples of a run without K = 16 are used again, %v", log.Taken, err)
	}
	r.Fresh = true
	log = records.New(list[0].Key("smoke"))
	if err := r.earlier(list[0], log); err != nil || log.Earlier != nil {
		t.Errorf("fresh: %v, %v", log.Earlier, err)
	}
	if _, err := records.Load(filepath.Join(dir, "records", "table2.jsonl"), "table2"); err != nil {
		t.Error(err)
	}
}
