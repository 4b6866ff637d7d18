package published

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/records"
)

// A figure of the summary that was changed by hand is found, and so is a prediction.
func TestForgedSummaryIsFound(t *testing.T) {
	const reference = "../../results/reference"
	dir := t.TempDir()
	files, err := filepath.Glob(reference + "/*/predictions*")
	if err != nil || len(files) == 0 {
		t.Fatal("no results of predictions", err)
	}
	for _, name := range files {
		text := testkit.Must(os.ReadFile(name))(t)
		to := filepath.Join(dir, strings.TrimPrefix(filepath.ToSlash(name), reference))
		testkit.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		testkit.NoError(t, os.WriteFile(to, text, 0o644))
	}
	wrong := func() []string {
		return testkit.Must(claims.Verifying{All: []lab.Paper{Paper}, Results: dir, Paper: Paper.Name}.Run(t.Context()))(t).Wrong
	}
	testkit.EqualAll(t, wrong(), nil, "the reference")
	for _, forged := range []struct{ file, old, replacement string }{
		{"tables/predictions.md", "megatron-sc21-table1 ", "megatron-sc21-table2 "},
		{"tables/predictions.csv", "%,", "0%,"},
		{"records/predictions.jsonl", `"seconds":`, `"seconds":1`},
	} {
		name := filepath.Join(dir, forged.file)
		text := testkit.Must(os.ReadFile(name))(t)
		changed := strings.Replace(string(text), forged.old, forged.replacement, 1)
		if changed == string(text) {
			t.Fatalf("%s has no %q", forged.file, forged.old)
		}
		testkit.NoError(t, os.WriteFile(name, []byte(changed), 0o644))
		testkit.Has(t, strings.Join(wrong(), "\n"), "predictions")
		testkit.NoError(t, os.WriteFile(name, text, 0o644))
	}
}

// The committed predictions are of the accelerators' figures of today. While a file is being worked on they are
// not, which is said here; `gpipebench published --fresh --out results/reference` makes them anew.
func TestPredictionsAreOfTodaysFigures(t *testing.T) {
	log := testkit.Must(records.Load(records.File("../../results/reference", id), id))(t)
	for _, of := range Committed().trainings() {
		var made Predicted
		testkit.NoError(t, log.Get(of.rows[0].ID, &made))
		name := nearest(Committed().device(of.rows[0].Device))
		if now, err := figures(name); err != nil || now != made.Figures {
			t.Fatalf("%s was predicted with other figures of %s than today's (%v): gpipebench published --fresh --out results/reference, make reference", of.rows[0].ID, name, err)
		}
	}
}
