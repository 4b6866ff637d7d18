package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An empty directory has no record: what is computed holds, the rest is missing.
func TestVerifyCommand(t *testing.T) {
	dir := t.TempDir()
	verify := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := run(context.Background(), append([]string{"verify", "--results", dir}, args...), &out, &errs)
		return status, out.String(), errs.String()
	}
	status, out, errs := verify()
	if status != 0 || !strings.Contains(out, "reproduced    AmoebaNet-D (18, 208)") || !strings.Contains(out, "no record") || errs != "" {
		t.Errorf("status %d: %s", status, errs)
	}
	if status, _, errs = verify("--strict"); status != 1 || !strings.Contains(errs, "claims have no record: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("strict: status %d: %s", status, errs)
	}
	var v struct {
		Claims []struct{ ID, Verdict, Where, Claim, Kind string }
		Counts map[string]int
	}
	if status, out, _ = verify("--format", "json"); status != 0 || json.Unmarshal([]byte(out), &v) != nil || len(v.Claims) < 100 || v.Counts["reproduced"] < 20 {
		t.Errorf("json: status %d, %d claims, %v", status, len(v.Claims), v.Counts)
	}
	if status, out, _ = verify("--format", "markdown"); status != 0 || !strings.Contains(out, "| reproduced ") {
		t.Errorf("markdown: status %d\n%s", status, out)
	}
	if err := os.MkdirAll(filepath.Join(dir, "records"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "records", "table2.jsonl"), []byte(`{"session":"x","sha256":"0123456789abcdef"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs = verify(); status != 1 || !strings.Contains(errs, "table2.jsonl") {
		t.Errorf("a changed record: status %d: %s", status, errs)
	}
	dir = filepath.Join(dir, "nothing")
	if status, _, errs = verify(); status != 1 || !strings.Contains(errs, "is no directory of results") {
		t.Errorf("no directory: status %d: %s", status, errs)
	}
}
