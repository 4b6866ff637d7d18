package experiments

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// Whatever a records file holds, it is read in one piece, with what is wrong in it
// said, and reading what was read and set aside again finds the same samples.
func FuzzOpenLog(f *testing.F) {
	k := records.Key{Experiment: "e", Profile: "smoke"}
	whole := ""
	for _, r := range []*records.Record{{Session: "s", Key: k, Provenance: &records.Provenance{}}, {Session: "s", Key: k, Sample: "a", Data: []byte(`{"x":1}`)}} {
		whole += string(testkit.Must(r.Encode())(f)) + "\n"
	}
	for _, text := range []string{"", whole, whole + whole, whole[:len(whole)-1], whole + whole[:40], "x\n" + whole, "\n\n\x00\n", strings.Repeat("x\n", 100), whole + "rubbish"} {
		f.Add([]byte(text))
	}
	name := filepath.Join(f.TempDir(), "e.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		os.Remove(name + ".torn")
		testkit.NoError(t, os.WriteFile(name, text, 0o600))
		l := testkit.Must(records.Open(name, k, false))(t)
		defer l.Close()
		if said := l.Damaged + l.Torn; strings.ContainsAny(said, "\n\r") || len(said) > 2000 {
			t.Errorf("said: %q", said)
		}
		again, err := records.Load(name, "e")
		if err != nil && len(l.Names) > 0 {
			t.Fatal(err)
		}
		if err == nil && again.Key == k && !slices.Equal(again.Names, l.Names) {
			t.Errorf("%q holds %q, then %q", text, l.Names, again.Names)
		}
		if err == nil && again.Torn != "" {
			t.Errorf("still torn: %s", again.Torn)
		}
	})
}
