package gpipe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// flat are copies of all values, in order.
func flat(all []NamedWeights) (values []float32) {
	for _, w := range all {
		values = append(values, w.Data...)
	}
	return values
}

// byPath are copies of all values.
func byPath(all []NamedWeights) map[string][]float32 {
	values := map[string][]float32{}
	for _, w := range all {
		values[w.Path] = slices.Clone(w.Data)
	}
	return values
}

// Gradients have the same bits however the network is run, before the update as after
// it, and reading them changes nothing.
func TestGradientsOfEveryWay(t *testing.T) {
	reference := openSmall(t, small.pipeline(t))
	if got := reference.Gradients(); got != nil {
		t.Errorf("%d gradients before the first step", len(got))
	}
	r := must(reference.Differentiate(t.Context(), small.data(0)))(t)
	want := flat(reference.Gradients())
	paths := fmt.Sprint(reference.Weights()[0].Path, len(reference.Weights()), len(want))
	testkit.Equal(t, fmt.Sprint(reference.Gradients()[0].Path, len(reference.Gradients()), len(want)), paths, "gradients")
	var squares float64
	for _, g := range want {
		squares += float64(g) * float64(g)
	}
	if norm := math.Sqrt(squares); math.Abs(norm/r.GradNorm-1) > 1e-6 || math.Abs(r.Clipping-0.5/norm) > 1e-6 {
		t.Errorf("norm %v and clipping %v, want %v and %v", r.GradNorm, r.Clipping, norm, 0.5/norm)
	}
	stepSmall(t, reference, 0)
	hash := reference.Hash()
	for _, w := range []Pipeline{
		{Partitions: 1, MicroBatches: 4, Checkpoint: schedule.Never},
		{Partitions: 3, MicroBatches: 4, Schedule: schedule.OneFOneB},
		{Partitions: 8, MicroBatches: 9, Devices: []Device{{Kind: Emulated}}},
		{Partitions: 2, MicroBatches: 2, Devices: []Device{{Threads: 3}}},
	} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches, p.Schedule, p.Checkpoint, p.Devices = w.Partitions, w.MicroBatches, w.Schedule, w.Checkpoint, w.Devices
		tr := openSmall(t, p)
		for range 2 {
			before := tr.Hash()
			got := must(tr.Differentiate(t.Context(), small.data(0)))(t)
			if tr.Hash() != before || tr.Steps() != 0 || got.Loss != r.Loss || got.GradNorm != r.GradNorm || got.Clipping != r.Clipping {
				t.Errorf("K=%d: %d steps, loss %v, norm %v, clipping %v", w.Partitions, tr.Steps(), got.Loss, got.GradNorm, got.Clipping)
			}
			testkit.EqualAll(t, flat(tr.Gradients()), want, "K=%d M=%d: other gradients", w.Partitions, w.MicroBatches)
		}
		stepSmall(t, tr, 0)
		if !slices.Equal(flat(tr.Gradients()), want) || tr.Hash() != hash {
			t.Errorf("K=%d M=%d: other gradients or weights after the update", w.Partitions, w.MicroBatches)
		}
	}
	ps := apart(t, []int{0, 1, 0}, InputOf(small.data(0)), func() Pipeline { return small.pipeline(t) })
	ps.all(func(rank int, tr *Trainer) {
		if _, err := tr.Differentiate(t.Context(), small.data(0)); err != nil {
			t.Error(err)
		}
		testkit.EqualAll(t, flat(tr.Gradients()), want, "rank %d: other gradients", rank)
	})
}

// Gradients are the loss's derivatives: by central differences, of a tied table among
// them.
func TestGradientsAreDerivatives(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches = 2, 3
	tr := openSmall(t, p)
	loss := func() float64 { return must(tr.Differentiate(t.Context(), small.data(0)))(t).Loss }
	loss()
	gradients := byPath(tr.Gradients())
	const h = 1.0 / 1024
	checked := 0
	for i, w := range tr.Weights() {
		if i%5 != 0 {
			continue
		}
		g := gradients[w.Path]
		at := len(g) / 2
		// Every copy of a tied weight moves.
		moved := func(by float32) {
			for _, d := range tr.devices {
				for _, j := range d.index[i] {
					d.weights[j].w[at] += by
				}
			}
		}
		moved(h)
		up := loss()
		moved(-2 * h)
		down := loss()
		moved(h)
		if want := (up - down) / (2 * h); math.Abs(float64(g[at])-want) > 2e-3 {
			t.Errorf("%s[%d]: %v, by differences %v", w.Path, at, g[at], want)
		}
		checked++
	}
	if checked < 5 {
		t.Errorf("%d gradients compared", checked)
	}
}

// The update is by these gradients, times Clipping.
func TestUpdateIsByGradients(t *testing.T) {
	p := small.pipeline(t)
	p.Optimizer, p.LR, p.L2 = nn.SGD{}, nn.ConstantLR(0.5), 0
	tr := openSmall(t, p)
	before := flat(tr.Weights())
	r := stepped(t, tr, small.data(0))
	if r.Clipping >= 1 {
		t.Fatalf("clipping %v: nothing is clipped", r.Clipping)
	}
	after := flat(tr.Weights())
	for i, g := range flat(tr.Gradients()) {
		if want := float64(before[i]) - 0.5*r.Clipping*float64(g); math.Abs(float64(after[i])-want) > 1e-6 {
			t.Fatalf("weight %d: %v, want %v", i, after[i], want)
		}
	}
}
