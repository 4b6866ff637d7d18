package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
	"gpipebench/train/golden"
)

// There is a line for each golden training, and README's program is one of them.
func TestVerifyHashes(t *testing.T) {
	said, _ := succeeds(t, "verify", "--hashes")
	if n := strings.Count(said, "  as published\n"); n != len(golden.Trainings) || n != strings.Count(said, "\n") {
		t.Errorf("%d trainings of %d:\n%s", n, len(golden.Trainings), said)
	}
	readme := testkit.Must(os.ReadFile("../../README.md"))(t)
	hash, _, _ := strings.Cut(golden.Trainings[0].Published(), " ")
	if len(hash) != 64 || !strings.Contains(string(readme), hash) {
		t.Errorf("README.md has no %q, which its program ends with", hash)
	}
}

// Claims are computed and printed whatever there are for records, in each format
// as one document; no records at all, and changed ones, are a failure in one line.
func TestVerifyCommand(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir := t.TempDir()
	// verify returns what is printed. An error is one line, and all else that is said.
	verify := func(status int, says string, args ...string) (text string) {
		t.Helper()
		got, text, said := execute(t, append([]string{"verify", "--results", dir}, args...)...)
		if got != status || !strings.Contains(said, says) || strings.Count(said, "\n") != min(status, 1) {
			t.Errorf("%q: status %d: %s\nwant %d and %s; it prints\n%.1000s", args, got, said, status, says, text)
		}
		return text
	}
	lacks := func(text, unwanted string) {
		t.Helper()
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, text)
		}
	}
	rowsOf := func(text string) int {
		t.Helper()
		return len(testkit.Must(csv.NewReader(strings.NewReader(text)).ReadAll())(t))
	}
	verify(1, "has no records of any experiment")
	text, said := succeeds(t, "reproduce", "--profile", "smoke", "--only", "counts,delayed-reduction", "--out", dir)
	testkit.Has(t, text, "All tables and plots: "+filepath.Join(dir, "report", "index.html"))
	lacks(text, "AmoebaNet-D")
	testkit.Has(t, said, " left\n")
	testkit.Has(t, verify(0, "", "-v"), "reproduced        AmoebaNet-D (18, 208)", "no record")
	all := experiments.Papers[0].Experiments
	verify(1, "claims have no record: ", "--strict")
	verify(1, fmt.Sprintf("%d experiments have no usable records: ", len(all)-2), "--strict")
	var v struct {
		Claims  []struct{ ID, Verdict, Where, Claim, Kind string }
		Records []struct{ Experiment, State string }
		Counts  map[string]int
	}
	testkit.NoError(t, json.Unmarshal([]byte(verify(0, "", "--format", "json")), &v))
	if len(v.Claims) < 100 || len(v.Records) != len(all) || v.Counts["reproduced"] < 15 {
		t.Errorf("json: %d claims, records of %d experiments, %v", len(v.Claims), len(v.Records), v.Counts)
	}
	text = verify(0, "", "--format", "csv")
	testkit.Equal(t, rowsOf(text), 1+len(v.Claims), "csv: rows")
	if strings.HasSuffix(text, "\n\n") {
		t.Error("csv: an empty line at the end")
	}
	testkit.Has(t, verify(0, "", "--format", "markdown"), "| reproduced ")
	text = verify(0, "", "--only", "delayed-accuracy,held by a test", "--format", "csv")
	if n := rowsOf(text); n < 5 {
		t.Errorf("only: %d rows, want 5 or more", n)
	}
	testkit.Has(t, text, "delayed-accuracy")
	lacks(text, "delayed-activations")
	verify(2, `--only: "delayed" is no claim and no verdict: want IDs of claims`, "--only", "delayed")
	testkit.Has(t, verify(0, "", "--against", dir), fmt.Sprintf("0 of %d verdicts differ", len(v.Claims)-v.Counts["no record"]))
	other := t.TempDir()
	testkit.NoError(t, os.CopyFS(other, os.DirFS(dir)))
	succeeds(t, "reproduce", "--profile", "smoke", "--only", "efficiency", "--out", other)
	text = verify(1, "verdicts differ from those on "+other, "--against", other, "--format", "csv")
	testkit.Has(t, text, "efficiency-resnet50-p100,")
	lacks(text, "delayed-same-parameters")
	text = verify(1, "", "--against", other, "--format", "json", "--only", "efficiency-resnet50-p100")
	testkit.Has(t, text, `"id": "efficiency-resnet50-p100"`, `"against": "holds"`)
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "records", "table2.jsonl"), []byte(`{"session":"x","sha256":"0123456789abcdef"}`+"\n"), 0o600))
	verify(1, "table2.jsonl")
	dir = filepath.Join(dir, "nothing")
	verify(1, "nothing is not there: want a directory that reproduce has written")
}

// A folder with a ledger and tables is judged by itself, and the schema of ledgers is JSON.
func TestVerifyLedgerAlone(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "ledger")
	text, said := succeeds(t, "verify", dir)
	if said != "" || !strings.Contains(text, "outcome   holds") || strings.Contains(text, "Claims of the ledger") {
		t.Errorf("%s%s", text, said)
	}
	if text, _ = succeeds(t, "verify", dir, "--only", "parameters-C3", "--strict"); !strings.Contains(text, `parameters-C3: L section II.B, count, counted, paper 1,516, tolerance digits; by cell("layers",`) || !strings.Contains(text, "here: 1516 (+0%)") || strings.Contains(text, "parameters-C5") {
		t.Error(text)
	}
	text, _ = succeeds(t, "verify", "--schema")
	keys(t, text, "$schema", "properties", "required")
	for line, want := range map[string]string{
		"--only none": `--only: "none" is no claim and no verdict: want`, "--paper all": "judges by the tables there: want no --paper", "--results x": "want no --results",
		"more": `unexpected argument "more": want a directory with claims.yaml, or flags only (see gpipebench verify --help)`,
	} {
		fails(t, 2, want, append([]string{"verify", dir}, strings.Fields(line)...)...)
	}
	fails(t, 2, "want a directory with claims.yaml", "verify", t.TempDir())
}
