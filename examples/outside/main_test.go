package main

import (
	"math"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
)

// However a network is cut and run, its weights have the same bits.
func TestSameBits(t *testing.T) {
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			d, err := n.pipeline(1, 1).Describe(gpipe.InputOf(n.batch))
			if err != nil || len(d.OutsideContract) > 0 {
				t.Fatalf("operations outside the contract: %v, %v", d, err)
			}
			first, last, want, err := train(n.pipeline(1, 1), n.batch, 40)
			if err != nil {
				t.Fatal(err)
			}
			if !(last < first/2) {
				t.Errorf("the loss goes from %v to %v", first, last)
			}
			for _, k := range []int{1, 2, 3} {
				for _, m := range []int{1, 3, n.batch.Examples()} {
					for _, s := range []schedule.Schedule{schedule.GPipe, schedule.Naive, schedule.OneFOneB} {
						for _, kind := range []gpipe.Kind{gpipe.Host, gpipe.Emulated} {
							p := n.pipeline(k, m)
							p.Schedule, p.Devices = s, []gpipe.Device{{Kind: kind, Threads: 1 + k%2}}
							_, _, got, err := train(p, n.batch, 40)
							if err != nil {
								t.Fatal(err)
							}
							if got != want {
								t.Errorf("K=%d M=%d %v on %v devices: other weights", k, m, s, kind)
							}
						}
					}
				}
			}
		})
	}
}

// The gradients are the loss's derivatives, by central differences.
func TestGradientsAreDerivatives(t *testing.T) {
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			tr, err := n.pipeline(2, 2).Open(gpipe.InputOf(n.batch))
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			loss := func() float64 {
				r, err := tr.Differentiate(t.Context(), n.batch)
				if err != nil {
					t.Fatal(err)
				}
				return r.Loss
			}
			loss()
			var gradients [][]float32
			for _, g := range tr.Gradients() {
				gradients = append(gradients, slices.Clone(g.Data))
			}
			const h = 1.0 / 256
			largest := 0.0
			for i, w := range tr.Weights() {
				for at := 0; at < len(w.Data); at += 1 + len(w.Data)/5 {
					before := w.Data[at]
					w.Data[at] = before + h
					up := loss()
					w.Data[at] = before - h
					down := loss()
					w.Data[at] = before
					got, want := float64(gradients[i][at]), (up-down)/(2*h)
					largest = max(largest, math.Abs(want))
					if math.Abs(got-want) > 1e-3 {
						t.Errorf("%s[%d]: gradient %v, by differences %v", w.Path, at, got, want)
					}
				}
			}
			if largest < 1e-2 {
				t.Errorf("all derivatives are below %v: the test proves nothing", largest)
			}
		})
	}
}
