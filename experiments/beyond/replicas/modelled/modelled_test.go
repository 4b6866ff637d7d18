package modelled

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A report of given times is the arithmetic of these.
func TestReport(t *testing.T) {
	m := labtest.Loaded[*modelled](t, Definition.Load)
	log := records.New(m.Key("quick"))
	labtest.CheckLacking(t, m, log)
	sides, most, err := m.sides("quick")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.rows(sides, func(row []cell) error {
		for i, c := range row {
			s := sample{Seconds: float64(c.micro(most)), Reduce: 0.25, Update: 0.5, Params: 1 << 30, Fits: c.kind == weak}
			if c.side > 1 {
				s.Seconds *= float64(2 + i)
			}
			if !log.Has(c.name()) {
				if err := log.Add(c.name(), 0, s); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	if want := len(m.Spec.Networks) * 2 * len(sides); len(table.Rows) != want {
		t.Errorf("%d rows, want %d", len(table.Rows), want)
	}
	batches := map[string]bool{}
	for _, row := range table.Rows {
		of := func(column string) float64 { return row[table.Column(column)].Numbers[0] }
		for i, w := range m.Spec.Ways {
			want := 100 / float64(2+i)
			if of("R") == 1 {
				want = 100
			}
			if got := of("efficiency, " + w.Name); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%v: %s: efficiency %v%%, want %v%%", row[:3], w.Name, got, want)
			}
		}
		if row[1].Text == strong {
			batches[row[0].Text+" "+row[table.Column("mini-batch")].Text] = true
		}
		if got, want := of("accelerators")*of("M"), of("mini-batch"); row[0].Text == "ResNet-50" && got*32 != want {
			t.Errorf("%v: micro-batches of %v examples, want 32", row[:3], want/got)
		}
	}
	if len(batches) != len(m.Spec.Networks) {
		t.Errorf("strong scaling has mini-batches %v: want one for each network", batches)
	}
	if notes := strings.Join(table.Notes, "\n"); !strings.Contains(notes, "strong, R = 1024.") || strings.Contains(notes, "weak") {
		t.Errorf("what does not fit: %s", notes)
	}
}

// Steps are simulated once, and replicas add what they must: an all-reduce whose ring takes
// longer than the torus's, and divided updates that take less time and memory.
func TestMeasures(t *testing.T) {
	m := labtest.Loaded[*modelled](t, Definition.Load)
	m.Spec.Networks = m.Spec.Networks[:1]
	m.Spec.Networks[0].Model.Image = 64
	log := records.New(m.Key("smoke"))
	if err := m.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	n := len(log.Names)
	if err := m.Measure(t.Context(), log, progress.Silent{}); err != nil || len(log.Names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.Names)-n, err)
	}
	if want := 2 * (1 + len(m.Spec.Ways)); n != want {
		t.Errorf("%d samples, want %d", n, want)
	}
	of := func(i, side int) (s sample) {
		if err := log.Get((cell{&m.Spec.Networks[0], weak, side, &m.Spec.Ways[i]}).name(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, ring, torus, divided := of(0, 1), of(1, 2), of(2, 2), of(3, 2)
	if one.Reduce != 0 || !(torus.Seconds > one.Seconds) || !(ring.Reduce > torus.Reduce) {
		t.Errorf("one replica %+v, ring %+v, torus %+v", one, ring, torus)
	}
	if !(divided.Update < torus.Update) || !(divided.Params < torus.Params) {
		t.Errorf("divided %+v, whole %+v", divided, torus)
	}
	if r, err := m.Report(log, nil); err != nil || len(r.Tables) != 2 {
		t.Errorf("%v", err)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [2, 4]", "want 1 first"},
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [1, 4, 2]", "ascending order"},
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [1, 2, 3]", "cannot be divided over 4"},
		{"all_reduce: ring", "all_reduce: star", "want tree, ring, 2d"},
		{"name: Transformer-24", "name: ResNet-50", "is there twice"},
		{"m: 16\n", "m: 1024\n", "want a product of at most"},
		{"micro: 32\n", "micro: 16777216\n", "want at most"},
	})
	m := labtest.Loaded[*modelled](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		m.Spec.Networks[0].Accelerator = file
		return m
	})
	most := slices.Max(m.Spec.Sides)
	if r := most * most; r != 1024 || r > gpipe.MaxReplicas {
		t.Errorf("up to %d replicas", r)
	}
}
