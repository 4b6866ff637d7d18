package gpipe

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// Frozen parameters keep their bits whatever else an update does, the others learn, and
// all of it is the same however the network is run.
func TestFrozenParametersKeepTheirBits(t *testing.T) {
	rated := func() Pipeline {
		p := small.pipeline(t)
		p.Optimizer, p.EMA = nn.Adam{WeightDecay: 0.1}, nn.EMA{Decay: 0.9}
		p.Rates = []Rate{{Path: "layer2/attention"}, {Path: "layer[34]"}, {Path: "embedding"}, {Path: "layer*", Factor: 0.5}}
		return p
	}
	frozen := func(path string) bool {
		return strings.HasPrefix(path, "layer2/attention/") || strings.HasPrefix(path, "layer3/") || strings.HasPrefix(path, "layer4/") || strings.HasPrefix(path, "embedding/")
	}
	hashes := map[string]bool{}
	for _, w := range []Pipeline{
		{Partitions: 1, MicroBatches: 1},
		{Partitions: 4, MicroBatches: 3, Schedule: schedule.OneFOneB},
		{Partitions: 8, MicroBatches: 9, Devices: []Device{{Kind: Emulated, Threads: 2}}},
	} {
		p := rated()
		p.Partitions, p.MicroBatches, p.Schedule, p.Devices = w.Partitions, w.MicroBatches, w.Schedule, w.Devices
		tr := openSmall(t, p)
		before := byPath(tr.Weights())
		for i := range 3 {
			r := stepped(t, tr, small.data(i))
			var squares float64
			for _, g := range tr.Gradients() {
				for _, v := range g.Data {
					if !frozen(g.Path) {
						squares += float64(v) * float64(v)
					}
				}
			}
			if norm := math.Sqrt(squares); math.Abs(norm/r.GradNorm-1) > 1e-6 {
				t.Errorf("norm %v, of what is not frozen %v", r.GradNorm, norm)
			}
		}
		count := 0
		check := func(what string) {
			for _, w := range tr.Weights() {
				if same := slices.Equal(w.Data, before[w.Path]); same != frozen(w.Path) {
					t.Errorf("K=%d: %s of %s: the same bits: %v, frozen: %v", p.Partitions, what, w.Path, same, frozen(w.Path))
				} else if same {
					count++
				}
			}
		}
		check("weights")
		noError(t, tr.Averaged(func() error { check("averages"); return nil }))
		if count == 0 {
			t.Error("nothing is frozen")
		}
		hashes[tr.Hash()] = true
	}
	testkit.Equal(t, len(hashes), 1, "different outcomes")
}

// A factor multiplies the rate, the first that matches counts, and 1 changes nothing.
func TestRatesAreFactors(t *testing.T) {
	after := func(lr float64, rates ...Rate) map[string][]float32 {
		p := small.pipeline(t)
		p.Optimizer, p.LR, p.Rates = nn.SGD{Momentum: 0.9}, nn.ConstantLR(lr), rates
		tr := openSmall(t, p)
		stepSmall(t, tr, 0)
		return byPath(tr.Weights())
	}
	plain, doubled := after(0.25), after(0.5)
	for path, w := range after(0.25, Rate{Path: "layer1", Factor: 2}, Rate{Path: "layer*", Factor: 1}) {
		want := plain
		if strings.HasPrefix(path, "layer1/") {
			want = doubled
		}
		testkit.EqualAll(t, w, want[path], "%s has other bits", path)
	}
}
