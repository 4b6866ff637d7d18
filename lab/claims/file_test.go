package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// A file that the records do not give is found.
func TestVerifyComparesLedgerFile(t *testing.T) {
	v := Verifying{Results: t.TempDir()}
	r := &Verification{Claims: []Judgement{{Claim: Claim{ID: "a"}, Verdict: Holds}}}
	if err := v.compareLedger(r); err != nil || len(r.Wrong) > 0 {
		t.Errorf("no file: %v, %v", err, r.Wrong)
	}
	is := testkit.Must(r.File())(t)
	for text, wrong := range map[string]int{string(is): 0, strings.Replace(string(is), "holds", "fails", 1): 1} {
		testkit.NoError(t, os.WriteFile(filepath.Join(v.Results, LedgerFile), []byte(text), 0o600))
		r.Wrong = nil
		if err := v.compareLedger(r); err != nil || len(r.Wrong) != wrong {
			t.Errorf("%v, %v, want %d", err, r.Wrong, wrong)
		}
	}
}
