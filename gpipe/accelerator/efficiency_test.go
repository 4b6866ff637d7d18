package accelerator

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
)

// Shares are interpolated over the logarithm of the size; kinds fall back on more general
// ones; dtypes do not.
func TestShares(t *testing.T) {
	a := &Accelerator{Efficiencies: []Efficiency{
		{Of: "dense", DType: "f32", Points: []Point{{Size: 16, Share: 0.2}, {Size: 64, Share: 0.4}, {Size: 256, Share: 1}}},
		{Of: "conv-input-grad", Points: []Point{{Share: 0.5}}},
		{Of: "conv-3x3", DType: "bf16", Points: []Point{{Share: 2}}},
	}}
	for _, test := range []struct {
		kind  string
		dtype graph.DType
		size  int
		want  float64
	}{
		{"dense", graph.F32, 1, 0.2}, {"dense", graph.F32, 16, 0.2}, {"dense", graph.F32, 32, 0.3}, {"dense", graph.F32, 64, 0.4},
		{"dense", graph.F32, 128, 0.7}, {"dense", graph.F32, 256, 1}, {"dense", graph.F32, 9999, 1},
		{"dense", graph.BF16, 32, 1},
		{"attention", graph.F32, 32, 0.3}, {"conv-1x1-weight-grad", graph.F32, 32, 0.3}, {"conv-3x3", graph.F32, 32, 0.3},
		{"conv-3x3", graph.BF16, 32, 2}, {"conv-1x1", graph.BF16, 32, 1},
		{"conv-3x3-input-grad", graph.F32, 32, 0.5}, {"conv-1x1-input-grad", graph.BF16, 32, 0.5},
		{"depthwise", graph.F32, 32, 1}, {"depthwise-weight-grad", graph.F32, 32, 1},
		{Memory, graph.F32, 0, 1}, {Link, graph.F32, 0, 1}, {"", graph.F32, 0, 1},
	} {
		if got := a.share(test.kind, test.dtype, test.size); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%s, %v, %d: %v, want %v", test.kind, test.dtype, test.size, got, test.want)
		}
		peak := *a
		AtPeak(&peak)
		testkit.Equal(t, peak.share(test.kind, test.dtype, test.size), 1, "%s, %v, %d", test.kind, test.dtype, test.size)
	}
}

// Every kind ends at dense or depthwise, or has no other kind.
func TestFallbacksAreKinds(t *testing.T) {
	for _, kind := range efficiencyKinds {
		for steps := 0; fallback[kind] != ""; steps++ {
			if kind = fallback[kind]; steps > 3 {
				t.Fatalf("%s: without an end", kind)
			}
		}
		if kind != "dense" && kind != "depthwise" && kind != Memory && kind != Link && kind != Far {
			t.Errorf("%s has no other kind", kind)
		}
	}
}

// The name of efficiencies changes with a share, and not with bands and sources.
func TestEfficientNames(t *testing.T) {
	of := func(e ...Efficiency) string { return (&Accelerator{Efficiencies: e}).Efficient() }
	one := of(Efficiency{Of: "dense", Points: []Point{{Share: 0.5}}})
	if of() != "" || len(one) != 8 {
		t.Errorf("%q and %q", of(), one)
	}
	testkit.Equal(t, of(Efficiency{Of: "dense", Points: []Point{{Share: 0.5, Low: 0.1}}, Source: "another"}), one, "a source changes the name")
	for _, other := range []Efficiency{
		{Of: "dense", Points: []Point{{Share: 0.6}}}, {Of: "conv", Points: []Point{{Share: 0.5}}},
		{Of: "dense", DType: "f32", Points: []Point{{Share: 0.5}}}, {Of: "dense", Points: []Point{{Size: 1, Share: 0.5}}},
	} {
		if of(other) == one {
			t.Errorf("%+v has the same name", other)
		}
	}
}

// Memory and link run at what they reach, where both move bytes only.
func TestMovesAtMeasuredRates(t *testing.T) {
	a := testkit.Must(Named("p100"))(t)
	if got, want := a.Moving(Update, 1e9)-a.Overhead, 1e9/(732e9*0.606); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("an update of a gigabyte in %v s, want %v", got, want)
	}
	if got := a.Hop(); got.Bandwidth != 16e9*0.782 || !got.ThroughHost || got.Latency != a.Link.Latency {
		t.Errorf("link %+v", got)
	}
	if AtPeak(a); a.Hop() != a.Link || a.Moving(Clear, 732e9) != 1+a.Overhead {
		t.Errorf("at the peak: link %+v, clear %v s", a.Hop(), a.Moving(Clear, 732e9))
	}
}

// Operations whose kernels were timed move data at their own share, and all others at the memory's.
func TestOwnBandwidth(t *testing.T) {
	a := testkit.Must(Named("a100-80g"))(t)
	for op, share := range map[string]float64{"layer-norm": 0.466, "dropout": 0.635, "gelu": 0.849, "attention": 0.849} {
		if got := a.bandwidthOf(op); math.Abs(got/(2039e9*share)-1) > 1e-12 {
			t.Errorf("%s at %v bytes/s, want %v of 2,039e9", op, got, share)
		}
	}
}
