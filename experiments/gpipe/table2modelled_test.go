package gpipe

import (
	"context"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
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
	testkit.Equal(t, len(names), 2+7, "names")
}

// A variation changes what is simulated, wherever an accelerator's figures go.
func TestTable2ModelledVariations(t *testing.T) {
	n := &cells.Network{ID: "small", Model: cellstest.SmallLM, Accelerator: "p100", DType: "f32", Optimizer: "adam"}
	step := func(change func(*accelerator.Accelerator)) *cells.Step {
		n.Change = change
		m := testkit.Must(cells.NewModeller(n, false, nil))(t)
		s := testkit.Must(m.Step(context.Background(), []int{2, 2, 2}, 2, 4))(t)
		return s
	}
	measured, peak := step(nil), step(accelerator.AtPeak)
	if measured.Early <= peak.Early {
		t.Errorf("at measured rates %v s, at peak rates %v", measured.Early, peak.Early)
	}
	for _, name := range []string{"half the memory bandwidth", "element-wise operations fused", "transfers beside computation"} {
		v := testkit.Must(accelerator.ParseVariation(name))(t)
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
