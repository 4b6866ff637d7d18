package gpipe

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/amoebanet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// averaging is the small language model, trained as AmoebaNet was: RMSProp,
// whose state does not start from zero, and an average of the weights.
func averaging(t testing.TB) Pipeline {
	p := small.pipeline(t)
	p.Optimizer, p.EMA = nn.RMSProp{}, nn.EMA{Decay: 0.9}
	return p
}

func openSmall(t testing.TB, p Pipeline) *Trainer {
	t.Helper()
	return openedForAll(t, p, InputOf(small.data(0)))
}

func stepSmall(t testing.TB, tr *Trainer, i int) {
	t.Helper()
	stepped(t, tr, small.data(i))
}

// TestAverageIsTensorFlows computes the average from the weights after every step, in
// float64; it starts from the first weights.
func TestAverageIsTensorFlows(t *testing.T) {
	for _, e := range []nn.EMA{{Decay: 0.9}, {Decay: 0.9, Constant: true}} {
		p := averaging(t)
		p.EMA = e
		tr := openSmall(t, p)
		var want []float64
		for _, v := range flat(tr.Weights()) {
			want = append(want, float64(v))
		}
		for step := 1; step <= 4; step++ {
			stepSmall(t, tr, step)
			decay := e.Decay
			if !e.Constant {
				decay = min(decay, float64(1+step)/float64(10+step))
			}
			for i, w := range flat(tr.Weights()) {
				want[i] -= (1 - decay) * (want[i] - float64(w))
			}
			if err := tr.Averaged(func() error {
				for i, got := range flat(tr.Weights()) {
					if math.Abs(float64(got)-want[i]) > 1e-6 {
						return fmt.Errorf("step %d, weight %d: average %v, want %v", step, i, got, want[i])
					}
				}
				return nil
			}); err != nil {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
}

// An average does not change the training.
func TestAverageChangesNothing(t *testing.T) {
	none := averaging(t)
	none.EMA = nn.EMA{}
	with, without := small.train(t, averaging(t)), small.train(t, none)
	if with.hash != without.hash || with.averages == with.hash {
		t.Errorf("weights %s with an average, %s, and %s without", with.hash, with.averages, without.hash)
	}
}

// The state of every parameter on every device starts from what the optimiser
// says, and its average from the weight.
func TestStateStarts(t *testing.T) {
	p := averaging(t)
	p.Partitions = 3
	for _, d := range openSmall(t, p).devices {
		for _, w := range d.weights {
			for i, v := range w.w {
				if w.state[0][i] != 1 || w.state[1][i] != 0 || w.average()[i] != v {
					t.Fatalf("device %d: mean of squares %v, momentum %v, average %v of %v", d.k, w.state[0][i], w.state[1][i], w.average()[i], v)
				}
			}
		}
	}
}

// The average is one more tensor of optimiser state for each parameter.
func TestAverageIsPlanned(t *testing.T) {
	state := func(e nn.EMA) (n int64) {
		p := averaging(t)
		p.EMA = e
		for _, plan := range openSmall(t, p).Plans() {
			n += plan.Bytes[OptimizerState]
		}
		return n
	}
	two, three := state(nn.EMA{}), state(nn.EMA{Decay: 0.9})
	if ratio := float64(three) / float64(two); ratio < 1.49 || ratio > 1.51 {
		t.Errorf("%d bytes of optimiser state with an average, %d without: %.3f times, want 3/2", three, two, ratio)
	}
}

// TestAveragedRestores: f sees the averages, also in evaluations, and after it the
// weights have the bits that they had, even if f failed or panicked.
func TestAveragedRestores(t *testing.T) {
	p := averaging(t)
	p.Partitions, p.MicroBatches = 3, 2
	tr := openSmall(t, p)
	stepSmall(t, tr, 0)
	stepSmall(t, tr, 1)
	evaluate := func() float64 { return must(tr.Evaluate(t.Context(), small.data(5)))(t).Loss }
	hash, loss := tr.Hash(), evaluate()
	dir := t.TempDir()
	averagesFile, wrong := filepath.Join(dir, "averages"), errors.New("f's own")
	var averageHash string
	var averageLoss float64
	err := tr.Averaged(func() error {
		averageHash, averageLoss = tr.Hash(), evaluate()
		noError(t, tr.Save(averagesFile, nil))
		const inPlace = "averages are in the weights' places"
		testkit.Refused(tr.Step(t.Context(), small.data(2)))(t, inPlace)
		testkit.Fails(t, tr.Load(averagesFile), inPlace)
		testkit.Fails(t, tr.Averaged(func() error { return nil }), inPlace)
		return wrong
	})
	if err != wrong {
		t.Errorf("f's error comes back as %v", err)
	}
	if averageHash == hash || averageLoss == loss {
		t.Errorf("hash %s and loss %v within, %s and %v outside", averageHash, averageLoss, hash, loss)
	}
	testkit.Equal(t, tr.Hash(), hash, "weights")
	testkit.Equal(t, evaluate(), loss, "loss")
	testkit.Panics(t, func() { _ = tr.Averaged(func() error { panic("in f") }) }, "in f")
	testkit.Equal(t, tr.Hash(), hash, "weights")
	stepSmall(t, tr, 2) // training goes on as if nothing had happened
	other := openSmall(t, p)
	for i := range 3 {
		stepSmall(t, other, i)
	}
	testkit.Equal(t, tr.Hash(), other.Hash(), "the evaluations change the training")

	// Once loaded, the averages are the weights, and the new averages start from them.
	noError(t, tr.Load(averagesFile))
	noError(t, tr.Averaged(func() error { hash = tr.Hash(); return nil }))
	if tr.Hash() != averageHash || hash != averageHash {
		t.Errorf("loaded %s, average %s, want %s of both", tr.Hash(), hash, averageHash)
	}

	testkit.Fails(t, openSmall(t, small.pipeline(t)).Averaged(func() error { return nil }))
}

// Batch norm's moving averages are not weights: they stay in place while the
// averages of the weights are evaluated, and are hashed and saved with them.
func TestAveragedLeavesMovingStatistics(t *testing.T) {
	c := amoebanet.Config{Layers: 3, Filters: 8, Classes: 5, Image: 32}
	image := graph.Shape{c.Image, c.Image, 3}
	b := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: append([]int{4}, image...), F32: make([]float32, 4*image.Elems())}},
		Targets: []nn.Tensor{{Shape: []int{4}, I32: []int32{0, 1, 2, 3}}}, Count: 4,
	}
	for i := range b.Inputs[0].F32 {
		b.Inputs[0].F32[i] = float32(math.Sin(float64(i * i)))
	}
	p := Pipeline{
		Layers: must(amoebanet.New(c))(t), Loss: nn.CrossEntropy{Ranks: true}, Partitions: 3, MicroBatches: 2, Numerics: Numerics{Optimizer: nn.RMSProp{}, EMA: nn.EMA{Decay: 0.9}},
		Evaluating: InputOf(b),
	}
	tr := opened(t, p, InputOf(b))
	stepped(t, tr, b)
	checkMemory(t, tr)
	trained := byPath(tr.Weights())
	statistics, averages := 0, 0
	noError(t, tr.Averaged(func() error {
		for _, w := range tr.Weights() {
			switch same := slices.Equal(w.Data, trained[w.Path]); {
			case strings.Contains(w.Path, "moving_"):
				statistics++
				if !same {
					t.Errorf("%s changes", w.Path)
				}
			case !same:
				averages++
			}
		}
		_, err := tr.Evaluate(t.Context(), b)
		return err
	}))
	if statistics == 0 || averages == 0 {
		t.Errorf("%d moving averages, %d averages of weights that differ from them", statistics, averages)
	}
}
