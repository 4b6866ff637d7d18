package accelerator

import (
	"testing"

	"gpipebench/internal/testkit"
)

// Each end of a band changes one efficiency and nothing else, and not the accelerator
// that the bands were taken of.
func TestBands(t *testing.T) {
	a := Accelerator{Efficiencies: []Efficiency{
		{Of: "dense", DType: "f32", Points: []Point{{16, 0.2, 0.1, 0.2}, {64, 0.5, 0.5, 0.9}}},
		{Of: "conv", Points: []Point{{0, 0.5, 0.5, 0.5}}},
		{Of: Memory, Points: []Point{{0, 0.5, 0.4, 0.5}}},
	}}
	bands := a.Bands()
	if len(bands) != 2 || bands[0].Name != "dense, f32" || bands[1].Name != Memory || bands[1].High != nil {
		t.Fatalf("%+v, want those of dense and memory", bands)
	}
	shares := func(v *Variation) (all []float64) {
		changed := a
		if v != nil {
			v.Change(&changed)
		}
		for _, e := range changed.Efficiencies {
			for _, p := range e.Points {
				all = append(all, p.Share)
			}
		}
		return all
	}
	for _, test := range []struct {
		v    *Variation
		want []float64
	}{
		{bands[0].Low, []float64{0.1, 0.5, 0.5, 0.5}}, {bands[0].High, []float64{0.2, 0.9, 0.5, 0.5}},
		{bands[1].Low, []float64{0.2, 0.5, 0.5, 0.4}}, {nil, []float64{0.2, 0.5, 0.5, 0.5}},
	} {
		testkit.EqualAll(t, shares(test.v), test.want, "%+v: shares", test.v)
	}
	if bands[0].Low.Name != "dense, f32, low" || bands[0].High.Name != "dense, f32, high" {
		t.Errorf("names %q and %q", bands[0].Low.Name, bands[0].High.Name)
	}
}

// Changes follow one another, and none is no change.
func TestThen(t *testing.T) {
	double := func(a *Accelerator) { a.Bandwidth *= 2 }
	more := func(a *Accelerator) { a.Bandwidth++ }
	for want, change := range map[float64]func(*Accelerator){21: Then(double, more), 22: Then(more, double), 20: Then(double, nil), 11: Then(nil, more)} {
		a := Accelerator{Bandwidth: 10}
		if change(&a); a.Bandwidth != want {
			t.Errorf("%v, want %v", a.Bandwidth, want)
		}
	}
	if Then(nil, nil) != nil {
		t.Error("no change is one")
	}
}

func TestParseVariation(t *testing.T) {
	v := testkit.Must(ParseVariation("transfers beside computation"))(t)
	a := testkit.Must(Named("p100"))(t)
	if v.Change(a); a.Link.ThroughHost || a.Link.Bandwidth != 8e9 || a.Link.Latency != 20e-6 {
		t.Errorf("link %+v", a.Link)
	}
	testkit.Refused(ParseVariation("luck"))(t, `unknown "luck": want activations not`)
}
