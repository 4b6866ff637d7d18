package records_test

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// Samples of other cells are taken with their origin: what is not timed one by one, what is timed all
// together, on the same machine, or not at all.
func TestTake(t *testing.T) {
	earlier := func(machine string, names ...string) *records.Log {
		l := records.New(records.Key{Experiment: "e", Spec: "other cells", Machine: machine})
		for _, name := range names {
			testkit.NoError(t, l.Add(name, 7, name))
		}
		return l
	}
	timed := []string{"timed/1", "timed/2"}
	elsewhere := earlier("there", "modelled/1", "timed/1", "timed/2")
	for what, c := range map[string]struct {
		earlier []*records.Log
		has     []string
		want    []string
	}{
		"all":                 {[]*records.Log{earlier("here", "modelled/1", "timed/1", "timed/2", "timed/3")}, nil, []string{"modelled/1", "timed/1", "timed/2"}},
		"another machine":     {[]*records.Log{elsewhere}, nil, []string{"modelled/1"}},
		"some that are timed": {[]*records.Log{earlier("here", "timed/1"), earlier("here", "timed/2")}, nil, nil},
		"one is there":        {[]*records.Log{earlier("here", "timed/1", "timed/2")}, []string{"timed/2"}, []string{"timed/2"}},
		"the second has all":  {[]*records.Log{elsewhere, earlier("here", "timed/1", "timed/2")}, nil, []string{"modelled/1", "timed/1", "timed/2"}},
	} {
		name := filepath.Join(t.TempDir(), "e.jsonl")
		key := records.Key{Experiment: "e", Spec: "mine", Machine: "here"}
		l := testkit.Must(records.Open(name, key, false))(t)
		for _, has := range c.has {
			testkit.NoError(t, l.Add(has, 7, has))
		}
		l.Earlier = c.earlier
		for range 2 { // once is enough
			testkit.NoError(t, l.Take("modelled/1"))
			testkit.NoError(t, l.TakeTimed(timed))
		}
		testkit.NoError(t, l.Close())
		testkit.EqualAll(t, l.Names, c.want, "%s", what)
		testkit.Equal(t, l.Taken, len(c.want)-len(c.has), "%s: taken", what)
		if c.want == nil {
			continue
		}
		again := testkit.Must(records.Load(name, "e"))(t)
		if !slices.Equal(again.Names, c.want) || again.Key != key || again.Damaged != "" {
			t.Errorf("%s: the file has %v of %+v, damaged %q", what, again.Names, again.Key, again.Damaged)
		}
		for _, sample := range c.want {
			var data string
			if err := again.Get(sample, &data); err != nil || data != sample || again.Origin(sample) == nil || again.Samples[sample].Seed != 7 {
				t.Errorf("%s: %s is %q, of %v, %v", what, sample, data, again.Origin(sample), err)
			}
		}
	}
	l, err := records.LoadLast(filepath.Join(t.TempDir(), "none"), func(records.Key) bool { return true })
	testkit.Equal(t, l, nil, "no file")
	testkit.Is(t, err, fs.ErrNotExist)
}
