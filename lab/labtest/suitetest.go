// Package labtest helps to test experiments.
package labtest

import (
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Use -update where a table is meant to look different, and read the diff.
var Update = flag.Bool("update", false, "write the golden files anew")

func Golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *Update {
		testkit.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	testkit.Equal(t, got, string(testkit.Must(os.ReadFile(name))(t)), "%s", name)
}

// Loaded is an experiment of the program's own spec.
func Loaded[T lab.Experiment](t *testing.T, load func(...lab.SpecFile) (lab.Experiment, error)) T {
	t.Helper()
	e := testkit.Must(load())(t)
	return e.(T)
}

// Edited is an experiment's spec with the first old replaced.
func Edited(t *testing.T, d lab.Definition, old, replacement string) []byte {
	t.Helper()
	text := strings.Replace(d.Spec(), old, replacement, 1)
	if text == d.Spec() {
		t.Fatalf("the spec of %s has no %q", d.ID, old)
	}
	return []byte(text)
}

// Refused is what is wrong with an experiment's spec in which the first old is
// replaced, as x.yaml.
func Refused(t *testing.T, d lab.Definition, old, replacement string) error {
	t.Helper()
	_, err := d.Load(lab.SpecFile{Name: "x.yaml", Experiment: d.ID, Text: Edited(t, d, old, replacement)})
	return err
}

// LineWith is the number of the first line of a spec that has a part in it.
func LineWith(text []byte, part string) int {
	return 1 + slices.IndexFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.Contains(l, strings.TrimSpace(part)) })
}

// CheckRefused holds what is wrong with an experiment's spec, in which the first of
// each case is replaced by the second, against the third.
func CheckRefused(t *testing.T, d lab.Definition, cases [][3]string) {
	t.Helper()
	for _, c := range cases {
		testkit.FailsFirst(t, Refused(t, d, c[0], c[1]), "x.yaml:", c[2])
	}
}

// CheckKey checks that the key of an experiment's samples depends on the figures of an
// accelerator that it models by, and not on its description, sources or efficiencies, which
// are in the names of the samples that they decide. Modelling
// returns the experiment with the accelerator of a file.
func CheckKey(t *testing.T, modelling func(file string) lab.Experiment) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.yaml")
	write := func(text string) {
		testkit.NoError(t, os.WriteFile(file, []byte("name: own\nflops: {bf16: 1e12, f32: 1e12}\nbandwidth: 1e11\nlink: none\n"+text), 0o600))
	}
	write("memory: 1GiB")
	e := modelling(file)
	key := e.Key("smoke")
	if write("memory: 1GiB\ndescription: mine\nsources: {memory: a guess}"); e.Key("smoke") != key {
		t.Errorf("%s: another description gives another key", e.ID())
	}
	peak, rated := lab.AtRates("s", file, accelerator.AtPeak), lab.AtRates("s", file, nil)
	if write("memory: 1GiB\nefficiencies: [{of: dense, share: 0.5, source: mine}]"); e.Key("smoke") != key {
		t.Errorf("%s: efficiencies give another key", e.ID())
	}
	if half := lab.AtRates("s", file, nil); rated != "s" || peak != "s" || lab.AtRates("s", file, accelerator.AtPeak) != peak || half == rated {
		t.Errorf("%s: samples %q and %q at the peak, with efficiencies %q", e.ID(), peak, rated, half)
	}
	if write("memory: 2GiB"); e.Key("smoke") == key {
		t.Errorf("%s: more memory gives the same key", e.ID())
	}
}

// CheckLacking checks that there is no report of a log that lacks samples.
func CheckLacking(t *testing.T, e lab.Experiment, log *records.Log) {
	t.Helper()
	testkit.Refused(e.Report(log, nil))(t, "no sample")
}

// MeasureTwice measures an experiment's samples and checks that measuring again adds none.
func MeasureTwice(t *testing.T, e lab.Experiment, log *records.Log) {
	t.Helper()
	measure := func() {
		t.Helper()
		testkit.NoError(t, e.Measure(t.Context(), log, progress.Silent{}))
	}
	measure()
	once := maps.Clone(log.Samples)
	if measure(); !maps.Equal(log.Samples, once) {
		t.Errorf("%s: %d samples, and others or more, %d, after measuring again", e.ID(), len(once), len(log.Samples))
	}
}

// Recorded is an experiment's log in the reference, for the tests of a paper's experiments.
func Recorded(t *testing.T, id string) *records.Log {
	t.Helper()
	return testkit.Must(records.Load(records.File(filepath.Join("..", "..", "results", "reference"), id), id))(t)
}

// CheckVerdict changes a sample of the reference, and checks that the verdict says so.
func CheckVerdict[R any](t *testing.T, e lab.Experiment, sample string, change func(*R), says string) {
	t.Helper()
	log, of := Recorded(t, e.ID()), new(R)
	testkit.NoError(t, log.Get(sample, of))
	change(of)
	testkit.NoError(t, log.Add(sample, 1, of))
	r := testkit.Must(e.Report(log, nil))(t)
	if r.Verdict == nil || !strings.Contains(r.Verdict.Error(), says) {
		t.Errorf("%s: verdict %v, want %s", sample, r.Verdict, says)
	}
}

// CheckCells checks the numbers in some columns of a table's row, to a billionth.
func CheckCells(t *testing.T, table *lab.Table, row []lab.Value, want map[string]float64) {
	t.Helper()
	for column, want := range want {
		got := row[table.Column(column)]
		if len(got.Numbers) == 0 || !(math.Abs(got.Numbers[0]-want) <= 1e-9*math.Abs(want)) {
			t.Errorf("%s, %s: %s is %v, want %v", table.ID, row[0].Text, column, got, want)
		}
	}
}

// Reported is the report of a log, whose verdict, if there is one, is not a failure.
func Reported(t *testing.T, e lab.Experiment, log *records.Log) *lab.Report {
	t.Helper()
	r := testkit.Must(e.Report(log, nil))(t)
	testkit.NoError(t, r.Verdict)
	return r
}

// CheckPlots checks that a report's files are a figure.
func CheckPlots(t *testing.T, r *lab.Report) {
	t.Helper()
	if len(r.Files) != 1 || !strings.HasPrefix(r.Files[0].Text, "<?xml") {
		t.Errorf("%d files, want an SVG", len(r.Files))
	}
}
