package gpipe

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// groupsWays are the ways to run a network with each of these numbers of groups. Only the
// groups may change its bits.
func groupsWays(groups []int, examples int) []factor {
	g := factor{name: "G", set: func(w *way, i int) { w.Groups = groups[i] }}
	r := factor{name: "R", levels: []string{"1", "G"}, set: func(w *way, i int) {
		if w.Replicas = 1; i > 0 {
			w.Replicas = w.Groups >> min(i-1, bits.TrailingZeros(uint(w.Groups)))
		}
	}}
	m := factor{name: "M", levels: []string{"1", "2", "3", "all"}, set: func(w *way, i int) {
		w.MicroBatches = []int{1, 2, 3, examples}[i]
		w.MicroBatches = min(w.MicroBatches, examples/w.Groups)
	}}
	for _, n := range groups {
		g.levels = append(g.levels, strconv.Itoa(n))
		for half := 2; n%half == 0; half *= 2 {
			if level := fmt.Sprintf("G/%d", half); half < n && !slices.Contains(r.levels, level) {
				r.levels = append(r.levels, level)
			}
		}
	}
	update := factor{"update", []string{"whole", "divided"}, func(w *way, i int) { w.ShardUpdate = i == 1 }}
	all := []factor{g, r, m, update}
	for _, f := range factors {
		if f.name != "M" {
			all = append(all, f)
		}
	}
	return all
}

// TestG1Replicas is TestG1 for groups: one hash for each number of groups, over a
// pairwise-covering set of ways to run, replicas included. Groups are of different
// sizes.
func TestG1Replicas(t *testing.T) { groupsG1(t, small, 29, 1, 2, 3, 4, 6, 8, 12) }

// TestG1Llama is TestG1Replicas for a llama.
func TestG1Llama(t *testing.T) { groupsG1(t, smallLlama, 13, 1, 2, 4) }

func groupsG1(t *testing.T, l lm, examples int, groups ...int) {
	l.batch, l.steps = examples, 2
	checkG1(t, append(groupsWays(groups, examples), variants("tied", "true", "false")), examples, byGroups, func(t testing.TB, w way) outcome {
		l := l
		l.model.Tied = w.variant == 0
		return l.train(t, w.of(l.cut(t, w.fine)))
	})
}

// A group without examples, as at an epoch's end, adds nothing, wherever it is, and leaves no
// gathered row of an earlier mini-batch.
func TestShortMiniBatchOfGroups(t *testing.T) {
	language, translator := small, smallTranslation
	language.batch, translator.batch = 16, 16
	for _, c := range []struct {
		Pipeline
		data func(i int) nn.Batch
		how  TableGradients
	}{
		{language.pipeline(t), language.data, ReduceTied},
		{translator.pipeline(t), translator.data, GatherTied},
	} {
		hash := func(r int, how TableGradients) string {
			p := c.Pipeline
			p.Groups, p.Replicas, p.MicroBatches, p.Partitions, p.TiedGradients = 8, r, 2, 2, how
			tr := opened(t, p, InputOf(c.data(0)))
			for i, examples := range []int{16, 3, 16} {
				stepped(t, tr, c.data(i).Slice(0, examples))
			}
			return tr.Hash()
		}
		want := hash(1, ReduceTied)
		for _, r := range []int{1, 2, 4, 8} {
			testkit.Equal(t, hash(r, c.how), want, "R = %d", r)
		}
	}
}

// TestG1ReplicasOfImages is TestG1Replicas for networks with batch norm: one hash, and
// the same tallies in float64, for each number of groups and of micro-batches, and for
// each scope. With statistics of several replicas, a group may have a single value.
func TestG1ReplicasOfImages(t *testing.T) {
	statistics := []arithmetic{
		{groups: 2}, {groups: 3}, {groups: 4},
		{groups: 2, scope: AllScope}, {groups: 3, scope: AllScope}, {groups: 4, scope: AllScope},
		{groups: 4, scope: 2}, {groups: 6, scope: 3}, {groups: 6, scope: 2}, {groups: 8, scope: 2}, {groups: 8, scope: 4}, {groups: 8, scope: 8},
	}
	var levels []string
	for _, of := range statistics {
		levels = append(levels, fmt.Sprintf("G=%d,%v", of.groups, of.scope))
	}
	networks := []images{smallAmoebaNet, smallResNet}
	for i := range networks {
		networks[i].sizes = []int{17, 17, 13}
	}
	all := append(groupsWays([]int{4}, 17), variants("network", "amoebanet", "resnet"))
	all[0] = factor{"statistics", levels, func(w *way, i int) { w.Groups, w.BatchNormScope = statistics[i].groups, statistics[i].scope }}
	checkG1(t, all, 17, func(w *way) arithmetic {
		n := networks[w.variant]
		least := n.least
		if w.BatchNormScope != ReplicaScope {
			least, w.Replicas = 1, w.Groups
		}
		w.MicroBatches = min(w.MicroBatches, n.sizes[len(n.sizes)-1]/w.Groups/least)
		return n.arithmetic(*w)
	}, func(t testing.TB, w way) outcome {
		n := networks[w.variant]
		return train(t, w.of(n.pipeline(t, w.fine)), len(n.sizes), n.data)
	})
}

// Replicas divide an evaluation and a prediction, and their results are one replica's
// to the bit: losses, ranks, outputs, and memory as planned; also of fewer examples than there
// are replicas, which leave some without work.
func TestEvaluateReplicas(t *testing.T) {
	type result struct {
		loss    float64
		few     float64 // the loss of two examples
		correct int
		ranks   string
		outputs string
	}
	l := small
	l.batch = 29
	run := func(r int, kind Kind) result {
		p := l.pipeline(t)
		p.Loss = nn.CrossEntropy{Ranks: true}
		p.Replicas, p.Partitions, p.MicroBatches, p.Devices = r, 2, 3, []Device{{Kind: kind}}
		tr := openedForAll(t, p, InputOf(l.data(0)))
		e := must(tr.Evaluate(t.Context(), l.data(5)))(t)
		few := must(tr.Evaluate(t.Context(), l.data(5).Slice(0, 2)))(t)
		out := must(tr.Predict(t.Context(), l.data(5).Inputs...))(t)
		stepped(t, tr, l.data(1))
		checkMemory(t, tr)
		return result{e.Loss, few.Loss, e.Correct, fmt.Sprint(e.Ranks), fmt.Sprint(out[0].F32)}
	}
	want := run(1, Host)
	for _, r := range []int{2, 3, 8} {
		for _, kind := range []Kind{Host, Emulated} {
			testkit.Equal(t, run(r, kind), want, "R = %d, %v", r, kind)
		}
	}
}

// Divided updates: R replicas have one tensor of optimiser state together, to whole
// blocks; averages of the weights, gradients and weights are as with undivided updates.
func TestShardUpdate(t *testing.T) {
	type result struct{ hash, averaged, gradients string }
	l := blocky
	run := func(r int, shard bool) (result, []*Plan) {
		p := l.pipeline(t)
		p.Replicas, p.Groups, p.Partitions, p.ShardUpdate = r, 4, 2, shard
		p.EMA = nn.EMA{Decay: 0.9}
		p.Evaluating = InputOf(l.data(0))
		tr := opened(t, p, InputOf(l.data(0)))
		for i := range l.steps {
			s := stepped(t, tr, l.data(i))
			checkTimeline(t, s)
		}
		got := result{hash: tr.Hash(), gradients: hashOf(tr.Gradients())}
		noError(t, tr.Averaged(func() error {
			got.averaged = tr.Hash()
			_, err := tr.Evaluate(t.Context(), l.data(9))
			return err
		}))
		testkit.Equal(t, tr.Hash(), got.hash, "R = %d: after Averaged the weights are", r)
		stepped(t, tr, l.data(7))
		got.hash += tr.Hash()
		checkMemory(t, tr)
		return got, tr.Plans()
	}
	want, whole := run(1, false)
	for _, r := range []int{2, 4} {
		got, plans := run(r, true)
		testkit.Equal(t, got, want, "R = %d", r)
		for k := range 2 {
			var sum int64
			for replica := range r {
				sum += plans[replica*2+k].Bytes[OptimizerState]
			}
			const line = 64 // to which a whole tensor is rounded up
			if want := whole[k].Bytes[OptimizerState]; sum <= want-line || sum > want+int64(r)<<14 {
				t.Errorf("R = %d, stage %d: %d bytes of state in all, want %d", r, k, sum, want)
			}
		}
	}
}

// A divided update moves what the replica updates and no more: of 16 blocks of weights
// with two moments each, 4 on each of 4 replicas. That is the modelled time as well.
func TestDividedUpdateMoves(t *testing.T) {
	const width = 512
	a := chip()
	a.Bandwidth = 1e9
	p := Pipeline{Loss: nn.CrossEntropy{}, Numerics: Numerics{Optimizer: nn.Adam{}}, Replication: Replication{Replicas: 4}, Devices: []Device{DeviceOf(a)}}
	for i, out := range []int{width, width, 2 * width} {
		p.Layers = append(p.Layers, nn.NewDense(fmt.Sprint("dense", i), nn.DenseConfig{In: width, Out: out, NoBias: true}))
	}
	in := Input{Examples: 4, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{DType: graph.I32}}}
	want := 16 * reduction.BlockFloats * plan.FloatBytes * (2*3 + 1.0) // the gradient is only read
	for _, p.ShardUpdate = range []bool{false, true} {
		if p.ShardUpdate {
			want /= 4
		}
		for _, plan := range must(p.Plans(in))(t).Plans {
			testkit.Equal(t, plan.UpdateBytes(), want, "divided: %v, %v: bytes", p.ShardUpdate, plan.At)
		}
		zero, whole := Parallel{}, p // what is modelled has it by ZeRO's name as well
		if whole.ShardUpdate = false; p.ShardUpdate {
			zero.Zero = 1
		}
		for _, s := range []*Simulation{must(p.Simulate(in, Modelling{}))(t), must(whole.Simulate(in, Modelling{Parallel: zero}))(t)} {
			testkit.Equal(t, s.UpdateSeconds, a.Moving(accelerator.Update, want), "divided: %v: an update", p.ShardUpdate)
		}
	}
}

// Of a divided update a simulation shows the replica with most of it: 3 replicas have 1,
// 2 and 1 of 4 blocks.
func TestDividedUpdateIsTheFullest(t *testing.T) {
	const width = 4 * 256
	a := chip()
	a.Packing = true // as Plans has it
	p := Pipeline{Loss: nn.CrossEntropy{}, Numerics: Numerics{Optimizer: nn.Adam{}}, Replication: Replication{Replicas: 3, ShardUpdate: true}, Devices: []Device{DeviceOf(a)}}
	p.Layers = []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: width, Out: 256, NoBias: true})}
	in := Input{Examples: 3, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{DType: graph.I32}}}
	planned := must(p.Plans(in))(t)
	s := must(p.Simulate(in, Modelling{Accounting: FullAccounting}))(t)
	first, second := planned.Plans[0].Peak, planned.Plans[1].Peak
	if len(s.Devices) != 1 || s.Devices[0].PeakBytes != second || second <= first {
		t.Errorf("devices %+v, want one of %d bytes, more than the first replica's %d", s.Devices, second, first)
	}
}
