package main

import (
	"bytes"
	"context"
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
	verify := func(args ...string) (int, string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		status := run(context.Background(), append([]string{"verify", "--results", dir}, args...), &out, &errs)
		if status != 0 && strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("status %d, not in one line: %s", status, errs.String())
		}
		return status, out.String(), errs.String()
	}
	if status, _, errs := verify(); status != 1 || !strings.Contains(errs, "has no records of any experiment") {
		t.Errorf("an empty directory: status %d: %s", status, errs)
	}
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"reproduce", "--profile", "smoke", "--only", "counts,delayed-reduction", "--out", dir}, &out, &errs); status != 0 {
		t.Fatal(errs.String())
	}
	if text := out.String(); strings.Contains(text, "AmoebaNet-D") || !strings.Contains(text, "All tables and plots: "+filepath.Join(dir, "report", "index.html")) {
		t.Errorf("reproduce of two experiments prints\n%s", text)
	}
	testkit.Has(t, errs.String(), " left\n")
	status, text, said := verify("-v")
	if status != 0 || !strings.Contains(text, "reproduced        AmoebaNet-D (18, 208)") || !strings.Contains(text, "no record") || said != "" {
		t.Errorf("status %d: %s", status, said)
	}
	if status, _, said = verify("--strict"); status != 1 || !strings.Contains(said, "claims have no record: ") || !strings.Contains(said, fmt.Sprintf("%d experiments have no usable records: ", len(experiments.Papers[0].Experiments)-2)) {
		t.Errorf("strict: status %d: %s", status, said)
	}
	var v struct {
		Claims  []struct{ ID, Verdict, Where, Claim, Kind string }
		Records []struct{ Experiment, State string }
		Counts  map[string]int
	}
	if status, text, _ = verify("--format", "json"); status != 0 || json.Unmarshal([]byte(text), &v) != nil || len(v.Claims) < 100 || len(v.Records) != len(experiments.Papers[0].Experiments) || v.Counts["reproduced"] < 15 {
		t.Errorf("json: status %d, %d claims, %v", status, len(v.Claims), v.Counts)
	}
	status, text, _ = verify("--format", "csv")
	if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); status != 0 || err != nil || len(rows) != 1+len(v.Claims) || strings.HasSuffix(text, "\n\n") {
		t.Errorf("csv: status %d, %v, %d rows of %d claims", status, err, len(rows), len(v.Claims))
	}
	if status, text, _ = verify("--format", "markdown"); status != 0 || !strings.Contains(text, "| reproduced ") {
		t.Errorf("markdown: status %d\n%s", status, text)
	}
	status, text, said = verify("--only", "delayed-accuracy,held by a test", "--format", "csv")
	if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); status != 0 || err != nil || len(rows) < 5 || !strings.Contains(text, "delayed-accuracy") || strings.Contains(text, "delayed-activations") {
		t.Errorf("only: status %d: %s\n%s", status, said, text)
	}
	if status, _, said = verify("--only", "delayed"); status != 2 || !strings.Contains(said, `--only: "delayed" is no claim and no verdict: want IDs of claims`) {
		t.Errorf("only what is not there: status %d: %s", status, said)
	}
	if status, text, said = verify("--against", dir); status != 0 || !strings.Contains(text, fmt.Sprintf("0 of %d verdicts differ", len(v.Claims))) {
		t.Errorf("against itself: status %d: %s\n%s", status, said, text)
	}
	other := t.TempDir()
	testkit.NoError(t, os.CopyFS(other, os.DirFS(dir)))
	if status := run(context.Background(), []string{"reproduce", "--profile", "smoke", "--only", "efficiency", "--out", other}, &out, &errs); status != 0 {
		t.Fatal(errs.String())
	}
	if status, text, said = verify("--against", other, "--format", "csv"); status != 1 || !strings.Contains(said, "verdicts differ from those on "+other) || !strings.Contains(text, "efficiency-resnet50-p100,") || strings.Contains(text, "delayed-same-parameters") {
		t.Errorf("against others: status %d: %s\n%s", status, said, text)
	}
	if status, text, _ = verify("--against", other, "--format", "json", "--only", "efficiency-resnet50-p100"); status != 1 || !strings.Contains(text, `"id": "efficiency-resnet50-p100"`) || !strings.Contains(text, `"against": "holds"`) {
		t.Errorf("against others, JSON: status %d: %s", status, text)
	}
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "records", "table2.jsonl"), []byte(`{"session":"x","sha256":"0123456789abcdef"}`+"\n"), 0o600))
	if status, _, said = verify(); status != 1 || !strings.Contains(said, "table2.jsonl") {
		t.Errorf("a changed record: status %d: %s", status, said)
	}
	dir = filepath.Join(dir, "nothing")
	if status, _, said = verify(); status != 1 || !strings.Contains(said, "nothing is not there: want a directory that reproduce has written") {
		t.Errorf("no directory: status %d: %s", status, said)
	}
}

// A folder with a ledger and tables is judged by itself, and the schema of ledgers is JSON.
func TestVerifyLedgerAlone(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "ledger")
	text, said := succeeds(t, "verify", dir)
	if said != "" || !strings.Contains(text, "outcome   holds") || strings.Contains(text, "Claims of the ledger") {
		t.Errorf("%s%s", text, said)
	}
	if text, _ = succeeds(t, "verify", dir, "--only", "parameters-C3", "--strict"); !strings.Contains(text, "parameters-C3: L section II.B, count, counted, paper 1,516, tolerance digits; here: 1516 (+0%)") || strings.Contains(text, "parameters-C5") {
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
