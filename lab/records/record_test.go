package records

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/machine"
	"gpipebench/internal/testkit"
)

func TestRecords(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep", "records.jsonl")
	k := Key{Experiment: "e", Profile: "smoke", Spec: "s", Machine: "m"}
	other := k
	other.Spec = "another"
	type sample struct{ X []float64 }
	add := func(k Key, names ...string) {
		t.Helper()
		l := testkit.Must(Open(name, k, false))(t)
		defer l.Close()
		for i, n := range names {
			testkit.NoError(t, l.Add(n, 7, sample{[]float64{float64(i), 1.0 / 3}}))
		}
	}
	add(k, "a", "b")
	first := testkit.Must(os.ReadFile(name))(t)
	add(other, "a")
	add(k, "c")

	l := testkit.Must(Open(name, k, false))(t)
	l.Close()
	var s sample
	if l.Reused != 3 || !l.Has("a") || !l.Has("c") || l.Has("d") || l.Damaged != "" {
		t.Errorf("%d samples, damaged %q", l.Reused, l.Damaged)
	}
	testkit.NoError(t, l.Get("b", &s))
	testkit.EqualAll(t, s.X, []float64{1, 1.0 / 3}, "sample b")
	testkit.Fails(t, l.Get("d", &s), "no sample d")
	if p := l.Session; p.Time == "" || p.Go == "" || p.Machine != machine.This() {
		t.Errorf("provenance %+v", p)
	}
	all := testkit.Must(os.ReadFile(name))(t)
	if !bytes.HasPrefix(all, first) {
		t.Error("the file was not only added to")
	}
	fresh := testkit.Must(Open(name, k, true))(t)
	testkit.Equal(t, fresh.Has("a"), false, "fresh: there is a sample")
	testkit.Refused(Open(name, k, false))(t, "another process")
	fresh.Close()

	// Whichever key was written last is the one that LoadLog takes.
	if l, err := Load(name, "e"); err != nil || l.Key != k || !l.Has("a") || !l.Has("c") {
		t.Errorf("LoadLog: %v", err)
	}
	testkit.Refused(Load(name, "f"))(t)

	// A line with one changed digit is passed over and reported; a last line that was
	// torn off is set aside and reported once.
	damaged := strings.Replace(string(all), `{"X":[1,`, `{"X":[2,`, 1) + `{"session":"x","exper`
	testkit.NoError(t, os.WriteFile(name, []byte(damaged), 0o600))
	l = testkit.Must(Open(name, k, false))(t)
	if l.Has("b") || !l.Has("a") || !strings.HasSuffix(l.Damaged, "records.jsonl:3") || !strings.Contains(l.Torn, fmt.Sprintf("records.jsonl:%d, set aside", 1+strings.Count(string(all), "\n"))) {
		t.Errorf("has b: %v; damaged %q; torn %q", l.Has("b"), l.Damaged, l.Torn)
	}
	testkit.Equal(t, string(testkit.Must(os.ReadFile(name+".torn"))(t)), `{"session":"x","exper`+"\n", "set aside")
	testkit.NoError(t, l.Add("d", 0, sample{}))
	l.Close()
	l.Close()
	// Text after the last newline that cannot begin a record is damage, set
	// aside as well.
	whole := testkit.Must(os.ReadFile(name))(t)
	testkit.NoError(t, os.WriteFile(name, append(whole, "rubbish"...), 0o600))
	l = testkit.Must(Open(name, k, false))(t)
	testkit.Equal(t, l.Torn, "", "torn, with rubbish behind the last newline")
	testkit.Has(t, l.Damaged, fmt.Sprintf("records.jsonl:%d, set aside in", 1+strings.Count(string(whole), "\n")))
	l.Close()
	l = testkit.Must(Open(name, k, false))(t)
	if !l.Has("d") || l.Torn != "" || l.Reused != 3 || strings.Contains(l.Damaged, ", ") {
		t.Errorf("behind a torn line: no sample d, or %d samples; torn %q, damaged %q", l.Reused, l.Torn, l.Damaged)
	}
	l.Close()

	// Samples from before one that measured anew do not count, also if not all were measured again.
	fresh = testkit.Must(Open(name, k, true))(t)
	testkit.NoError(t, fresh.Add("c", 7, sample{}))
	fresh.Close()
	add(k, "d")
	testkit.EqualAll(t, testkit.Must(Load(name, "e"))(t).Names, []string{"c", "d"}, "samples after an interrupted --fresh")
}

// What a record says is what was written, or it is refused.
func FuzzDecodeRecord(f *testing.F) {
	r := &Record{Session: "s", Key: Key{Experiment: "e", Profile: "smoke"}, Sample: "a", Data: []byte(`{"x":[1,2.5]}`)}
	line := testkit.Must(r.Encode())(f)
	f.Add(line)
	f.Add(line[:len(line)-3])
	f.Add([]byte(`{"sample":"a","sha256":"0000000000000000"}`))
	f.Add([]byte(`,"sha256":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := DecodeRecord(bytes.Clone(line))
		if err != nil {
			return
		}
		s := testkit.Must(DecodeRecord(testkit.Must(r.Encode())(t)))(t)
		testkit.Equal(t, s.Sample, r.Sample, "%q comes back with sample", line)
		testkit.Equal(t, s.Key, r.Key, "%q comes back with key", line)
	})
}
