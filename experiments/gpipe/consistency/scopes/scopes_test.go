package scopes

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
)

// What is compared with the baseline, and what with the other scope at the same
// micro-batches.
func TestScopesReport(t *testing.T) {
	s := labtest.Loaded[*scopes](t, Definition.Load)
	p := s.Spec.Profiles["full"]
	p.Seeds = []uint64{1, 2, 3, 4, 5, 6}
	s.Spec.Profiles["full"] = p
	log := records.New(s.Key("full"))
	swing := []float64{1, -1, 0, 1, -1, 0}
	// Of each setup: the baseline; a little below it; far below within replicas.
	shift := []float64{0, -1, -0.5, -2, -1, -12}
	for i, arm := range s.arms(p) {
		for j, seed := range p.Seeds {
			accuracy := 60 + 2*float64(j) + shift[i]
			if i > 0 {
				accuracy += 0.2 * swing[j]
			}
			r := trained.Trial{Accuracy: accuracy / 100, Targets: 1000, SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{4}}
			if err := log.Add(arm.Sample(seed), seed, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := s.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table, pairs := r.Tables[0].Printed(), r.Tables[1].Printed()
	for _, c := range []struct {
		row                                int
		m, scope, micro, of, mean, outcome string
	}{
		{0, "1", "all", "64", "128", "", ""},
		{1, "1", "replica", "64", "64", "yes", "equivalent, though not equal"},
		{2, "4", "all", "16", "32", "yes", "equivalent, though not equal"},
		{3, "4", "replica", "16", "16", "yes", "equivalent, though not equal"},
		{4, "8", "all", "8", "16", "yes", "equivalent, though not equal"},
		{5, "8", "replica", "8", "8", "no", "different"},
	} {
		row := table[c.row]
		if row[0] != c.m || row[2] != c.scope || row[3] != c.micro || row[4] != c.of || row[8] != c.mean || row[12] != c.outcome {
			t.Errorf("row %d: %q, want %+v", c.row, row, c)
		}
	}
	if len(pairs) != 3 || pairs[1][1] != "16" || !strings.HasPrefix(pairs[1][2], "+1.50 [") || !strings.HasPrefix(pairs[2][2], "+11.00 [") {
		t.Errorf("pairs %q", pairs)
	}
	if note := r.Tables[0].Notes[0]; !strings.Contains(note, "M = 8, replica: different from the baseline, maybe by more than 5 points") {
		t.Error(note)
	}
	labtest.CheckPlots(t, r)
}

// The smallest profile is measured: each M and scope has bits of its own, whatever K is.
func TestScopesMeasures(t *testing.T) {
	s := labtest.Loaded[*scopes](t, Definition.Load)
	log := records.New(s.Key("smoke"))
	if err := s.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(log, nil); err != nil {
		t.Fatal(err)
	}
	p := s.Spec.Profiles["smoke"]
	hashes := map[string]bool{}
	for _, arm := range s.arms(p) {
		var was trained.Trial
		if err := log.Get(arm.Sample(p.Seeds[0]), &was); err != nil {
			t.Fatal(err)
		}
		hashes[was.SHA256] = true
		training := arm.Training(p.Seeds[0])
		training.Setup.Partitions = 3
		if again, err := trained.Train(t.Context(), training); err != nil || again.SHA256 != was.SHA256 || again.Accuracy != was.Accuracy {
			t.Errorf("%s: %+v, and with K = 3 %+v, %v", arm.Name, was, again, err)
		}
	}
	if len(hashes) != len(s.Spec.Setups) {
		t.Errorf("%d hashes of %d setups", len(hashes), len(s.Spec.Setups))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Measure(cancelled, records.New(s.Key("smoke")), progress.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestScopesRefused(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"{k: 1, m: 1, r: 2, bn_scope: all", "{k: 1, m: 2, r: 2, bn_scope: all", "setups.0: want M = 1, the baseline"},
		{"{k: 2, m: 4, r: 2, bn_scope: all", "{k: 2, m: 2, r: 2, bn_scope: replica", "setups.2: want bn_scope all, then"},
		{"{k: 2, m: 4, r: 2, bn_scope: replica", "{k: 2, m: 2, r: 2, bn_scope: replica", "setups.3: want the setup before"},
		{"{k: 2, m: 4, r: 2, bn_scope: replica", "{k: 2, m: 4, r: 2, bn_scope: whole", "bn_scope"},
		{"  - {k: 4, m: 8, r: 2, bn_scope: replica, checkpoint: never, threads: 1}\n", "", "setups.4: want the same with bn_scope replica"},
		{"{k: 1, m: 1, r: 2, bn_scope: all", "{k: 1, m: 1, bn_scope: all", "want r of 2 or more"},
		{"{k: 2, m: 4, r: 2, bn_scope: all", "{k: 2, m: 4, r: 4, bn_scope: all", "setups.2: want r of 2, as in setup 0"},
		{"{k: 1, m: 1, r: 2, bn_scope: all", "{k: 1, m: 1, r: 2, device: emulated, bn_scope: all", "want host devices"},
		{"batch: 32", "batch: 40", "want a multiple of 16"},
		{"margin: 5", "margin: 0", "margin"},
	})
}
