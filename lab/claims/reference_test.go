package claims

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
)

// Directories of the committed results: QuickDir has all experiments, FullDir those that were
// measured at full size.
var (
	QuickDir = filepath.Join("..", "..", "results", "reference")
	FullDir  = QuickDir + "-full"
)

// committed is what the committed results hold: read, reported and rendered once for all tests.
var committed = sync.OnceValue(func() *Reading {
	r, err := Verifying{All: experiments.Papers, Results: FullDir, Rest: QuickDir, Reference: QuickDir}.Read(context.Background())
	if err != nil {
		panic(err)
	}
	return r
})

// Committed is the reading of a committed directory: of FullDir with QuickDir for what it lacks,
// or of QuickDir alone.
func Committed(t *testing.T, dir string) *Reading {
	t.Helper()
	if testkit.Race {
		t.Skip("renders the whole reference: minutes under the race detector")
	}
	r := committed()
	if dir == QuickDir {
		return &Reading{of: Verifying{All: experiments.Papers, Results: QuickDir}, ledgers: r.ledgers, dirs: r.dirs[:1]}
	}
	return r
}

var verdicts = map[string]*Verification{}

// VerdictsOf are those on a committed directory.
func VerdictsOf(t *testing.T, dir string) *Verification {
	t.Helper()
	if verdicts[dir] == nil {
		verdicts[dir] = testkit.Must(Committed(t, dir).Judge())(t)
	}
	return verdicts[dir]
}

// No number in the reference is typed: its tables are what comes out of its records. Those
// of profile full show those of profile quick beside. Make it anew with
//
//	gpipebench reproduce --out results/reference
//	gpipebench reproduce --out results/reference-full --profile full --only ID,...
//
// and, after that or after a change of a report or of the ledger, what follows from the
// records by
//
//	make reference
func TestReferenceTables(t *testing.T) {
	for _, d := range Committed(t, FullDir).dirs {
		made := map[string]bool{}
		for _, x := range d.all {
			if !x.Usable && x.State != "none" {
				t.Errorf("%s: %s", x.file(), x.State)
			}
			if *labtest.Update && x.Usable {
				testkit.NoError(t, experiments.WriteReport(filepath.Join(x.Results, "tables"), x.report.Noted(x.Log)))
			}
			for _, f := range x.files {
				made[f.Name] = true
			}
		}
		for _, f := range testkit.Must(os.ReadDir(filepath.Join(d.in.Results, "tables")))(t) {
			if *labtest.Update && !made[f.Name()] {
				testkit.NoError(t, os.Remove(filepath.Join(d.in.Results, "tables", f.Name())))
			}
		}
		held := testkit.Must(d.in.compareTables(d.all))(t)
		for _, wrong := range held.Wrong {
			t.Error(wrong)
		}
	}
}

// Nothing fails on the reference, by itself and with what was measured at full size, and
// each claims.json is what the records give.
func TestReferenceLedger(t *testing.T) {
	for _, dir := range []string{QuickDir, FullDir} {
		t.Run(filepath.Base(dir), func(t *testing.T) { checkLedger(t, dir) })
	}
}

func checkLedger(t *testing.T, dir string) {
	name, v := filepath.Join(dir, LedgerFile), VerdictsOf(t, dir)
	for _, c := range v.Claims {
		if c.Verdict == Fails {
			t.Errorf("%s fails: %s", c.ID, c.here())
		}
	}
	is := testkit.Must(v.File())(t)
	if *labtest.Update {
		testkit.NoError(t, os.WriteFile(name, is, 0o644))
	}
	was := testkit.Must(os.ReadFile(name))(t)
	testkit.Equal(t, string(was), string(is), "%s is not what the records give: write it anew with make reference", name)
	var file struct {
		Claims []struct {
			ID, Kind, Verdict, Command string
			Experiments                []string
			Seconds                    float64
			Tolerance                  *struct{ Because string }
		}
	}
	testkit.NoError(t, json.Unmarshal(is, &file))
	testkit.Equal(t, len(file.Claims), len(v.Claims), "claims")
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
		return testkit.Must(experiments.Load(id))(t).Expected("quick") > time.Second
	})
}
