package experiments

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// What runs is the first paper's, without what is apart, unless other experiments are asked for.
func TestReproducingChooses(t *testing.T) {
	first, other := idsOf(Papers[0].Experiments), idsOf(Papers[1].Experiments)
	usual := slices.DeleteFunc(slices.Clone(first), func(id string) bool { return strings.HasPrefix(id, "section6") })
	for _, c := range []struct {
		r    Reproducing
		want []string
		says string // of the error; "": none
	}{
		{Reproducing{}, usual, ""},
		{Reproducing{Paper: Papers[0].Name}, first, ""},
		{Reproducing{Paper: Papers[1].Name}, other, ""},
		{Reproducing{Paper: AllPapers}, IDs(), ""},
		{Reproducing{Spec: "mine.yaml"}, IDs(), ""},
		{Reproducing{Only: []string{other[0], first[1]}}, []string{other[0], first[1]}, ""},
		{Reproducing{Only: other[:1], Paper: Papers[1].Name}, other[:1], ""},
		{Reproducing{Only: other[:1], Paper: Papers[0].Name}, nil, "is not of " + Papers[0].Name + ": want some of " + first[0]},
		{Reproducing{Only: []string{first[0], first[0]}}, nil, "is named twice"},
		{Reproducing{Only: []string{}}, nil, "no experiment: want some of"},
		{Reproducing{Paper: "none"}, nil, `unknown paper "none": want ` + strings.Join(PaperNames(), ", ")},
	} {
		got, err := c.r.chosen()
		if !slices.Equal(got, c.want) || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, %v; want %v, %s", c.r, got, err, c.want, c.says)
		}
	}
}

// What is left of trainings that were begun is said in hours, by their number.
func TestReproduceSaysWhatIsLeft(t *testing.T) {
	out := t.TempDir()
	r := Reproducing{Profile: "smoke", Only: []string{"densify-accuracy"}, Out: out}
	show := func(lab.Experiment, *lab.Report) error { return nil }
	testkit.NoError(t, r.Run(t.Context(), progress.Silent{}, show))
	name := records.File(out, "densify-accuracy")
	text := testkit.Must(os.ReadFile(name))(t)
	text = text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1] // without the last of 8 trainings
	testkit.NoError(t, os.WriteFile(name, text, 0o600))
	p := &said{}
	testkit.NoError(t, r.Run(t.Context(), p, show))
	testkit.Has(t, p.lines[0], "about 5 s on two cores, of which 1 s for 1 of 8 trainings that are left, less 9 samples")
}

// An experiment is expected to take what it took when it was measured last on this machine, if that is known whole
// and this run does not go on with it.
func TestExpectedIsTheLastTime(t *testing.T) {
	own := testkit.Must(Load("counts"))(t)
	spec, this := own.Expected("quick"), own.Key("quick").Spec
	here, elsewhere := machine.This(), machine.This()
	elsewhere.CPU += " of another kind"
	for name, c := range map[string]struct {
		on                 machine.Machine
		specs              []string // of records, each a second shorter than the last
		elapsed, processor float64
		fresh              bool
		want               time.Duration
	}{
		"another spec":              {here, []string{"other"}, 100, 150, false, 100 * time.Second},
		"this one anew":             {here, []string{"other", this}, 100, 150, true, 99 * time.Second},
		"this one goes on":          {here, []string{this}, 100, 150, false, spec},
		"another's, and it goes on": {here, []string{"other", this}, 100, 150, false, 100 * time.Second},
		"another machine":           {elsewhere, []string{"other"}, 100, 150, false, spec},
		"not recorded":              {here, []string{"other"}, 0, 0, false, spec},
	} {
		r := Reproducing{Profile: "quick", Only: []string{"counts"}, Out: t.TempDir(), Fresh: c.fresh}
		var text []byte
		for i, of := range c.specs {
			key := own.Key("quick")
			key.Spec = of
			for _, record := range []records.Record{
				{Session: of, Key: key, Provenance: &records.Provenance{Machine: c.on}},
				{Session: of, Key: key, Sample: "one", Data: []byte("1"), Time: "2026-01-01T00:00:00Z", Elapsed: c.elapsed - float64(i), Processor: c.processor},
			} {
				line := testkit.Must(record.Encode())(t)
				text = append(append(text, line...), '\n')
			}
		}
		file := records.File(r.Out, "counts")
		testkit.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testkit.NoError(t, os.WriteFile(file, text, 0o600))
		testkit.EqualAll(t, testkit.Must(r.Load())(t).Expected(), []time.Duration{c.want}, "%s", name)
	}
}
