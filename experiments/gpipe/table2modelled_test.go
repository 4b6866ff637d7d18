package gpipe

import (
	"context"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
)

// The conventions of Table 2 are Table 3's: both are read under the same.
func TestTable2ModelledConventions(t *testing.T) {
	two, three, _, err := ModelledTables()
	testkit.NoError(t, err)
	testkit.EqualDeep(t, two.Conventions, three.Conventions)
}

// A variation changes what is simulated, wherever an accelerator's figures go.
func TestTable2ModelledVariations(t *testing.T) {
	n := &cells.Network{ID: "small", On: cells.On{Model: cellstest.SmallLM, Accelerator: "p100", DType: "f32", Optimizer: "adam"}}
	step := func(change func(*accelerator.Accelerator)) *cells.Step {
		n.Change = change
		m := testkit.Must(cells.NewModeller(n, false, nil))(t)
		return testkit.Must(m.Step(context.Background(), []int{2, 2, 2}, 2, 4))(t)
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
	testkit.Equal(t, step(func(a *accelerator.Accelerator) { a.Link = clock.Link{} }).Early, measured.Free, "seconds without a link")
	if tight := step(func(a *accelerator.Accelerator) { a.Memory = 1 }); tight.Fits || !measured.Fits {
		t.Error("a memory of one byte suffices")
	}
}
