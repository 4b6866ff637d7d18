package mlperf

import (
	"math"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// Every row has a schedule of as many epochs; the rate rises over Table 1's part of it, 25 of 72.8
// epochs or, tuned, 18 of 64, and no step has a rate of 0. Rows of one mini-batch differ in the form of
// LARS and the warm-up alone, and all are compared with scaled LARS.
func TestLARSArms(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("lars-epochs").Load)
	if x.Spec.Arms[0].Name != "scaled" {
		t.Errorf("the first row is %s", x.Spec.Arms[0].Name)
	}
	for _, name := range []string{"quick", "full"} {
		size := x.Spec.Profiles[name]
		epochs := 0.0
		for _, a := range x.Spec.Arms {
			tr := x.Spec.Training(size, a, 1)
			images := float64(tr.Config.SyntheticImages.Train)
			if own := float64(tr.Steps*tr.Batch) / images; epochs == 0 {
				epochs = own
			} else if own != epochs {
				t.Errorf("%s, %s: %v epochs, want %v", name, a.Name, own, epochs)
			}
			if tr.Setup.MicroBatches*16 != tr.Batch || math.Mod(images, float64(tr.Batch)) != 0 {
				t.Errorf("%s, %s: %d micro-batches of %d in %v images", name, a.Name, tr.Setup.MicroBatches, tr.Batch, images)
			}
			part := 0.34
			if a.Training.Optimizer != x.Spec.Arms[0].Training.Optimizer && a.Name != "unscaled" {
				part = 0.28
			}
			rate, err := nn.LRUnits{}.Parse(tr.LRSchedule, 1)
			if err != nil {
				t.Fatal(err)
			}
			highest, at := 0.0, 0
			for step := 1; step <= tr.Steps; step++ {
				if r := rate.Rate(step); r > highest {
					highest, at = r, step
				}
			}
			if last := rate.Rate(tr.Steps); math.Abs(float64(at)-part*float64(tr.Steps)) > 0.5 || highest != 1 || !(last > 0) || last > 0.1 {
				t.Errorf("%s, %s: highest %v at %d of %d, the last %v", name, a.Name, highest, at, tr.Steps, last)
			}
			if o, err := train.ParseOptimizer(tr.Optimizer); err != nil || o.(nn.LARS).Trust != 0.1 {
				t.Errorf("%s: %v, %+v", a.Name, err, o)
			}
		}
	}
	for _, name := range lab.Profiles {
		if x.Spec.Profiles[name].Until == 0 {
			t.Errorf("%s: no accuracy", name)
		}
	}
}
