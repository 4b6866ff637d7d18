package gpipe

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// inOrder is mini-batches without errors.
func inOrder(batches ...nn.Batch) iter.Seq2[nn.Batch, error] {
	return func(yield func(nn.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// valuesOf are the values of a parameter or an average, by path.
func valuesOf(t *testing.T, tr *Trainer, path string) []float32 {
	t.Helper()
	for _, w := range tr.Weights() {
		if w.Path == path {
			return slices.Clone(w.Data)
		}
	}
	t.Fatalf("no %s", path)
	return nil
}

// moments are the mean and the variance of each of two columns, in float64.
func moments(rows []float64, unbiased bool) (mean, variance [2]float64) {
	n := float64(len(rows) / 2)
	for i, v := range rows {
		mean[i%2] += v / n
	}
	for i, v := range rows {
		variance[i%2] += (v - mean[i%2]) * (v - mean[i%2])
	}
	for j := range variance {
		if unbiased {
			variance[j] /= n - 1
		} else {
			variance[j] /= n
		}
	}
	return mean, variance
}

// Layers are timed on a micro-batch of a group, which for batch norm has to have two values.
func TestLayerTimesOfGroups(t *testing.T) {
	p := Pipeline{
		Layers: []nn.Layer{nn.NewBatchNorm("norm", nn.BatchNormConfig{Channels: 2})}, Loss: nn.MeanSquaredError{},
		MicroBatches: 2,
	}
	shape := []graph.Type{{Shape: graph.Shape{2}, DType: graph.F32}}
	for groups, want := range map[int]string{1: "", 2: "", 3: "", 4: "timing layer norm on a micro-batch of 1: "} {
		p.Groups = groups
		_, err := p.LayerTimes(t.Context(), Input{Examples: 8, Inputs: shape, Targets: shape})
		if want == "" {
			testkit.NoError(t, err, "%d groups", groups)
		} else {
			testkit.FailsFirst(t, err, want)
		}
	}
}

// Statistics are computed by hand: of a first norm, whose values are the examples, those of all
// examples; of a second one, whose values the first has normalised by micro-batches, those of all of
// these. Mini-batches have 5, 5 and 3 examples, and micro-batches 3 or 2, and 2 or 1.
func TestRecomputedByHand(t *testing.T) {
	const eps = 1e-5
	first := nn.NewBatchNorm("first", nn.BatchNormConfig{Channels: 2, Eps: eps})
	second := nn.NewBatchNorm("second", nn.BatchNormConfig{Channels: 2, Eps: eps, Unbiased: true})
	p := Pipeline{
		Layers: []nn.Layer{
			nn.Sequential("a", first, nn.NewDense("dense", nn.DenseConfig{In: 2, Out: 2, Activation: nn.Tanh})),
			nn.Sequential("b", second, nn.NewDense("dense", nn.DenseConfig{In: 2, Out: 1})),
		},
		Loss: nn.MeanSquaredError{}, Partitions: 2, MicroBatches: 2,
		Numerics: Numerics{Seed: 3, Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.1)},
	}
	batch := func(values ...float32) nn.Batch {
		n := len(values) / 2
		targets := make([]float32, n)
		return nn.Batch{
			Inputs:  []nn.Tensor{{Shape: []int{n, 2}, F32: values}},
			Targets: []nn.Tensor{{Shape: []int{n, 1}, F32: targets}}, Count: n,
		}
	}
	batches := []nn.Batch{
		batch(1, 2, 3, 5, 8, 13, -1, 0, 2, 2),
		batch(4, -2, 0.5, 7, 1, 1, 6, 3, -3, -5),
		batch(100, 2, 90, 4, 95, 8, 97, 1),
	}
	tr := opened(t, p, InputOf(batches[0]))
	stepped(t, tr, batches[1])
	before := tr.Hash()

	weight, bias := valuesOf(t, tr, "a/dense/weight"), valuesOf(t, tr, "a/dense/bias")
	gamma, beta := valuesOf(t, tr, "a/first/gamma"), valuesOf(t, tr, "a/first/beta")
	var inputs, hidden []float64
	for _, b := range batches {
		x := b.Inputs[0].F32
		for _, n := range MicroBatchSizes(b.Examples(), 2) {
			var micro []float64
			for _, v := range x[:2*n] {
				micro = append(micro, float64(v))
			}
			x = x[2*n:]
			mean, variance := moments(micro, false)
			for i := 0; i < len(micro); i += 2 {
				var y [2]float64
				for j := range y {
					y[j] = (micro[i+j]-mean[j])/math.Sqrt(variance[j]+eps)*float64(gamma[j]) + float64(beta[j])
				}
				for out := range 2 {
					hidden = append(hidden, math.Tanh(y[0]*float64(weight[out])+y[1]*float64(weight[2+out])+float64(bias[out])))
				}
			}
			inputs = append(inputs, micro...)
		}
	}
	called := false
	noError(t, tr.Recomputed(t.Context(), inOrder(batches...), func() error {
		called = true
		for _, c := range []struct {
			norm     string
			values   []float64
			unbiased bool
			within   float64
		}{{"a/first", inputs, false, 1e-7}, {"b/second", hidden, true, 2e-6}} {
			mean, variance := moments(c.values, c.unbiased)
			gotMean, gotVariance := valuesOf(t, tr, c.norm+"/moving_mean"), valuesOf(t, tr, c.norm+"/moving_variance")
			for j := range 2 {
				if off := math.Abs(float64(gotMean[j]) - mean[j]); off > c.within*math.Sqrt(variance[j]) {
					t.Errorf("%s: mean %v, want %v", c.norm, gotMean[j], mean[j])
				}
				if off := math.Abs(float64(gotVariance[j])/variance[j] - 1); off > c.within {
					t.Errorf("%s: variance %v, want %v", c.norm, gotVariance[j], variance[j])
				}
			}
		}
		if tr.Hash() == before {
			t.Error("the hash does not see the statistics")
		}
		return nil
	}))
	if !called || tr.Hash() != before || tr.Steps() != 1 {
		t.Errorf("called: %v, afterwards %d steps and another hash: want the averages as they were", called, tr.Steps())
	}
}

// Statistics have the same bits on all layouts, training goes on with its own, and what would
// train on the others is refused.
func TestRecomputedOfEveryWay(t *testing.T) {
	type outcome struct{ inside, loss, averaged, after string }
	for groups, ways := range map[int][]Pipeline{
		1: {
			{Partitions: 1},
			{Partitions: 3, Schedule: schedule.OneFOneB, Checkpoint: schedule.Never},
			{Partitions: 2, Devices: []Device{{Threads: 3}}},
			{Partitions: 4, Devices: []Device{{Kind: Emulated}}},
			{Partitions: 2, Replication: Replication{Tensor: 3}},
		},
		2: {
			{Partitions: 1, Replication: Replication{Replicas: 1}},
			{Partitions: 2, Replication: Replication{Replicas: 2}},
			{Partitions: 3, Replication: Replication{Replicas: 2, ShardUpdate: true}},
		},
	} {
		var want *outcome
		for _, w := range ways {
			n := smallResNet
			p := n.pipeline(t, false)
			p.Partitions, p.Schedule, p.Checkpoint, p.Devices, p.Replication = w.Partitions, w.Schedule, w.Checkpoint, w.Devices, w.Replication
			p.MicroBatches, p.Groups, p.EMA = 2, groups, nn.EMA{Decay: 0.5}
			tr := openedForAll(t, p, InputOf(n.data(0)))
			stepped(t, tr, n.data(0))
			var got outcome
			inside := func(hash *string) func() error {
				return func() error {
					*hash = tr.Hash()
					return nil
				}
			}
			data := inOrder(n.data(0), n.data(1))
			noError(t, tr.Recomputed(t.Context(), data, func() error {
				r := must(tr.Evaluate(t.Context(), n.data(2)))(t)
				got.loss = strconv.FormatFloat(r.Loss, 'g', -1, 64)
				testkit.Refused(tr.Step(t.Context(), n.data(1)))(t, "recomputed")
				testkit.Refused(tr.State(nil))(t, "recomputed")
				testkit.Fails(t, tr.Recomputed(t.Context(), data, func() error { return nil }), "recomputed")
				return inside(&got.inside)()
			}))
			noError(t, tr.Averaged(func() error { return tr.Recomputed(t.Context(), data, inside(&got.averaged)) }))
			stepped(t, tr, n.data(1))
			got.after = tr.Hash()
			if want == nil {
				want = &got
				plain := openedForAll(t, p, InputOf(n.data(0)))
				stepped(t, plain, n.data(0))
				stepped(t, plain, n.data(1))
				if plain.Hash() != got.after || got.averaged == got.inside {
					t.Error("training goes on with other averages, or the averaged weights have the same statistics")
				}
			}
			testkit.Equal(t, got, *want, "%d groups, K=%d R=%d", groups, w.Partitions, w.Replicas)
		}
	}
}

// An error of a mini-batch, or none at all, leaves the averages as they are.
func TestRecomputedRefuses(t *testing.T) {
	n := smallResNet
	p := n.pipeline(t, false)
	p.Partitions, p.MicroBatches = 2, 2
	tr := opened(t, p, InputOf(n.data(0)))
	before := tr.Hash()
	broken := errors.New("no data")
	for want, data := range map[string]iter.Seq2[nn.Batch, error]{
		"of no mini-batch": inOrder(),
		"no data":          func(yield func(nn.Batch, error) bool) { _ = yield(n.data(0), nil) && yield(nn.Batch{}, broken) },
	} {
		err := tr.Recomputed(t.Context(), data, func() error { t.Error("called"); return nil })
		if err == nil || !strings.Contains(err.Error(), want) || tr.Hash() != before {
			t.Errorf("%v: want %s, and nothing changed", err, want)
		}
	}
}
