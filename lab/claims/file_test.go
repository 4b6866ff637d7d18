package claims

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpipebench/experiments"
	"gpipebench/lab/labtest"
)

var (
	referenceDir     = filepath.Join("..", "..", "results", "reference")
	referenceFullDir = referenceDir + "-full"
)

// Nothing fails on the reference, by itself and with what was measured at full size, and
// each claims.json is what the records give. After a change of the records, of a report
// or of the ledger write them anew with
//
//	make reference
func TestReferenceLedger(t *testing.T) {
	labtest.RendersReference(t)
	for _, v := range []Verifying{{Results: referenceDir}, {Results: referenceFullDir, Rest: referenceDir, Reference: referenceDir}} {
		t.Run(filepath.Base(v.Results), func(t *testing.T) { checkLedger(t, v) })
	}
}

func checkLedger(t *testing.T, of Verifying) {
	name := filepath.Join(of.Results, LedgerFile)
	v, err := of.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Claims {
		if c.Verdict == Fails {
			t.Errorf("%s fails: %s", c.ID, c.here())
		}
	}
	is, err := v.File()
	if err != nil {
		t.Fatal(err)
	}
	if *labtest.Update {
		if err := os.WriteFile(name, is, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(name)
	if err != nil || string(was) != string(is) {
		t.Errorf("%s is not what the records give (%v): write it anew with make reference", name, err)
	}
	var file struct {
		Claims []struct {
			ID, Kind, Verdict, Command string
			Experiments                []string
			Seconds                    float64
			Tolerance                  *struct{ Because string }
		}
	}
	if err := json.Unmarshal(is, &file); err != nil || len(file.Claims) != len(v.Claims) {
		t.Fatal(err)
	}
	for _, c := range file.Claims {
		if c.Verdict == "" || lasts(t, c.Experiments) && c.Seconds <= 0 || c.Kind == "ratio" && (c.Tolerance == nil || c.Tolerance.Because == "") {
			t.Errorf("%+v", c)
		}
	}
}

// lasts reports whether one of these experiments takes longer than the second to which
// records have their time, as closed forms do not.
func lasts(t *testing.T, ids []string) bool {
	t.Helper()
	return slices.ContainsFunc(ids, func(id string) bool {
		e, err := experiments.Load(id)
		if err != nil {
			t.Fatal(err)
		}
		return e.Expected("quick") > time.Second
	})
}

// A file that the records do not give is found.
func TestVerifyComparesLedgerFile(t *testing.T) {
	v := Verifying{Results: t.TempDir()}
	r := &Verification{Claims: []Judgement{{Claim: Claim{ID: "a"}, Verdict: Holds}}}
	if err := v.compareLedger(r); err != nil || len(r.Wrong) > 0 {
		t.Errorf("no file: %v, %v", err, r.Wrong)
	}
	is, err := r.File()
	if err != nil {
		t.Fatal(err)
	}
	for text, wrong := range map[string]int{string(is): 0, strings.Replace(string(is), "holds", "fails", 1): 1} {
		if err := os.WriteFile(filepath.Join(v.Results, LedgerFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Wrong = nil
		if err := v.compareLedger(r); err != nil || len(r.Wrong) != wrong {
			t.Errorf("%v, %v, want %d", err, r.Wrong, wrong)
		}
	}
}
