package records

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
)

// What is kept of a sample stays until the sample is there, whatever else of its key
// changes; another key or engine does not find it.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	k := Key{Experiment: "e", Profile: "smoke", Spec: "s", Machine: "m"}
	open := func(k Key, fresh bool) *Log {
		t.Helper()
		return testkit.Must(Open(File(dir, k.Experiment), k, fresh))(t)
	}
	begin := func(k Key, sample string) string {
		t.Helper()
		l := open(k, false)
		defer l.Close()
		kept := l.Unfinished(sample)
		testkit.NoError(t, os.MkdirAll(kept, 0o700))
		if rel, err := filepath.Rel(filepath.Join(dir, "snapshots"), kept); err != nil || filepath.Dir(filepath.Dir(rel)) != "." {
			t.Errorf("%s is not two below snapshots", kept)
		}
		return kept
	}
	is := func(name string, want bool) {
		t.Helper()
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) == want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
	another, full := k, k
	another.Spec, full.Profile = "another", "full"
	one, two, stale, other := begin(k, "an arm/seed1"), begin(k, "an arm/seed2"), begin(another, "an arm/seed1"), begin(full, "an arm/seed1")
	if one == two || one == stale || one == other || filepath.Dir(one) != filepath.Dir(stale) || filepath.Dir(one) == filepath.Dir(other) {
		t.Errorf("%s, %s, %s, %s", one, two, stale, other)
	}
	l := open(k, false)
	testkit.NoError(t, l.Add("an arm/seed1", 1, 5))
	l.Close()
	is(one, false)
	is(stale, false)
	is(two, true)
	is(other, true)
	open(k, true).Close() // fresh
	is(two, false)
	is(other, true)
	l = open(full, false)
	testkit.NoError(t, l.Add("an arm/seed1", 1, 5))
	l.Close()
	is(filepath.Join(dir, "snapshots"), false)
	testkit.Equal(t, New(k).Unfinished("x"), "", "without a file")
}
