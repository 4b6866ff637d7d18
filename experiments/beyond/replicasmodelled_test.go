package beyond

import (
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
)

func loadedPods(t *testing.T) *cells.Experiment[podsSpec, podStep] {
	return labtest.Loaded[*cells.Experiment[podsSpec, podStep]](t, Paper.Experiment("replicas-modelled").Load)
}

// Steps are simulated once, and replicas add what they must: an all-reduce whose ring takes
// longer than the torus's, and divided updates that take less time and memory.
func TestPodsMeasure(t *testing.T) {
	e := loadedPods(t)
	e.Spec.Networks = e.Spec.Networks[:1]
	e.Spec.Networks[0].Model.Image = 64
	e.Spec.Profiles["quick"] = podsProfile{Most: 2}
	all := cellstest.Measured(t, e)
	testkit.Equal(t, len(all), 2*(1+len(e.Spec.Ways)), "samples")
	of := func(i, side int) podStep {
		return all[e.Spec.cell("", podCell{e.Spec.Networks[0], weak, side, 1}, e.Spec.Ways[i]).Sample]
	}
	one, ring, torus, divided := of(0, 1), of(1, 2), of(2, 2), of(3, 2)
	if one.Reduce != 0 || !(torus.Seconds > one.Seconds) || !(ring.Reduce > torus.Reduce) {
		t.Errorf("one replica %+v, ring %+v, torus %+v", one, ring, torus)
	}
	if !(divided.Update < torus.Update) || !(0 < divided.Params && divided.Params < torus.Params) {
		t.Errorf("divided %+v, whole %+v", divided, torus)
	}
}

func TestPodsSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("replicas-modelled"), [][3]string{
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [2, 4]", "want 1 first"},
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [1, 4, 2]", "ascending order"},
		{"sides: [1, 2, 4, 8, 16, 32]", "sides: [1, 2, 3]", "cannot be divided over 4"},
		{"all_reduce: ring", "all_reduce: star", "want tree, ring or 2d"},
		{"name: Transformer-24", "name: ResNet-50", "is there twice"},
		{"m: 16\n", "m: 1024\n", "want a product of at most"},
		{"micro: 32\n", "micro: 16777216\n", "want at most"},
	})
	e := loadedPods(t)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		e.Spec.Networks[0].Accelerator = file
		return e
	})
	most := slices.Max(e.Spec.Sides)
	if r := most * most; r != 1024 || r > gpipe.MaxReplicas {
		t.Errorf("up to %d replicas", r)
	}
}
