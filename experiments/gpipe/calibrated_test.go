package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
)

// The rates give the throughput that they were fitted to, within half a percent; of others
// nothing is asked.
func TestCalibratedRatesGiveWhatTheyWereFittedTo(t *testing.T) {
	c := labtest.Loaded[*calibrated](t, Paper.Experiment("calibrated").Load)
	fitted := map[string]bool{}
	for _, n := range c.Spec.Elsewhere {
		if n.Judged {
			continue
		}
		fitted[n.Accelerator] = true
		s := testkit.Must(n.cell("", false).Make(t.Context()))(t)
		testkit.Near(t, s.ExamplesPerSecond, n.Measured, 0.005*n.Measured, "%s on %s: examples a second, as published", n.Name, n.Accelerator)
	}
	for _, n := range c.Spec.Networks {
		if !fitted[n.Accelerator] {
			t.Errorf("%s: %s was fitted to nothing", n.Name, n.Accelerator)
		}
	}
}

// The base of Table 2's Transformer fits its devices under the default convention, as the spec says.
func TestCalibratedBaseFits(t *testing.T) {
	c := labtest.Loaded[*calibrated](t, Paper.Experiment("calibrated").Load)
	for _, n := range c.Spec.Networks {
		one := c.Spec.Standard()
		one.Networks = []*cells.Network{n}
		one.K, one.M = []int{one.Base.K}, []int{one.Base.M}
		for _, j := range cells.JobsOf(one) {
			made, _, err := j.Make(t.Context())
			testkit.NoError(t, err)
			if base := made.(*cells.Sample).Shrunk; !base.Fits {
				t.Errorf("%s: %d examples need %d bytes", n.Name, base.Micro, base.Peak)
			}
		}
	}
}
