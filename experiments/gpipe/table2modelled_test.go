package gpipe

import (
	"context"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A what-if is the default convention at peak rates, with samples of its own.
func TestTable2ModelledWhatIfs(t *testing.T) {
	m := labtest.Loaded[*table2Modelled](t, Paper.Experiment("table2-modelled").Load)
	s := cellstest.SmallScale(t)
	s.Networks[0].Accelerator = "p100"
	sample := func(s *cells.Scale) string {
		return cells.Point{Network: s.Networks[0], Split: "coarse", Cell: s.Base, Cut: s.Conventions.Cuts[0]}.String()
	}
	names := map[string]bool{sample(s): true, sample(s.Varied(accelerator.Variation{Change: accelerator.AtPeak})): true}
	for _, v := range m.whatIfs {
		w := s.WhatIf(v)
		all := w.ConventionsOf(w.Networks[0])
		if len(all) != 1 || all[0] != s.ConventionsOf(s.Networks[0])[0] || lab.JoinWith(w.M, " ") != "1 4" {
			t.Errorf("%s: conventions %v, M = %v", v.Name, all, w.M)
		}
		if name := sample(w); names[name] || strings.Contains(name, "efficiencies") {
			t.Errorf("%s: sample %s, which is another's or not at the peak", v.Name, name)
		}
		names[sample(w)] = true
	}
	if len(names) != 2+7 {
		t.Errorf("%d names, want one for each what-if, for measured rates and for the peak", len(names))
	}
}

// A variation changes what is simulated, wherever an accelerator's figures go.
func TestTable2ModelledVariations(t *testing.T) {
	n := &cells.Network{ID: "small", Model: cellstest.SmallLM, Accelerator: "p100", DType: "f32", Optimizer: "adam"}
	step := func(change func(*accelerator.Accelerator)) *cells.Step {
		n.Change = change
		m, err := cells.NewModeller(n, false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.Step(context.Background(), []int{2, 2, 2}, 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	measured, peak := step(nil), step(accelerator.AtPeak)
	if measured.Early <= peak.Early {
		t.Errorf("at measured rates %v s, at peak rates %v", measured.Early, peak.Early)
	}
	for _, name := range []string{"half the memory bandwidth", "element-wise operations fused", "transfers beside computation"} {
		v, err := accelerator.ParseVariation(name)
		if err != nil {
			t.Fatal(err)
		}
		if changed := step(v.Change); changed.Early == measured.Early {
			t.Errorf("%s: the step is as long as before", name)
		}
	}
	if free := step(func(a *accelerator.Accelerator) { a.Link = clock.Link{} }); free.Early != measured.Free {
		t.Errorf("no link: %v s, want %v", free.Early, measured.Free)
	}
	if tight := step(func(a *accelerator.Accelerator) { a.Memory = 1 }); tight.Fits || !measured.Fits {
		t.Error("a memory of one byte suffices")
	}
}

// The modelled tables of both specs come from one log.
func TestTable2ModelledReport(t *testing.T) {
	m := labtest.Loaded[*table2Modelled](t, Paper.Experiment("table2-modelled").Load)
	log := records.New(m.Key("smoke"))
	one := func(lab.Cell, cells.CutSpec, string, string) float64 { return 1 }
	cellstest.FillScale(t, log, &m.Spec.Scale, one)
	cellstest.FillScale(t, log, &m.table3.Spec.Scale, one)
	for _, v := range m.whatIfs {
		cellstest.FillScale(t, log, m.Spec.Scale.WhatIf(v), one)
		// Table 3's networks twice as fast with K = 8: 1, 2, 8 against 1.7 and 2.7, 1.8 and 3.3.
		cellstest.FillScale(t, log, m.table3.Spec.Scale.WhatIf(v), func(c lab.Cell, _ cells.CutSpec, _, _ string) float64 {
			return map[int]float64{2: 1, 4: 1, 8: 2}[c.K]
		})
	}
	r, err := m.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Throughput K/2: AmoebaNet 1, 2, 4 against 1.21, 1.84, 3.48.
	want := lab.Percent(((1-1/1.21)+(2/1.84-1)+(4/3.48-1))/3, 1).Text
	if row := r.Tables[2].Printed()[0]; row[1] != want+" [4.00]" {
		t.Errorf("%q; want %s for AmoebaNet", row, want)
	}
	third := lab.Percent(((2/1.7-1)+(8/2.7-1)+(2/1.8-1)+(8/3.3-1))/4, 1).Text
	if row := r.Tables[2].Printed()[2]; row[1] != want+" [4.00]" || row[3] != third+" [8.00, 8.00]" {
		t.Errorf("what if: %q; want %s and %s", row, want, third)
	}
}

// fillBeside makes every modelled cell what the paper has.
func fillBeside(t *testing.T, log *records.Log, m modelledBeside) {
	t.Helper()
	n := m.Networks[0]
	cellstest.FillScale(t, log, m.Scale, func(c lab.Cell, _ cells.CutSpec, _, _ string) float64 {
		return n.Paper.Of(c).Value.Value / float64(c.K)
	})
}
