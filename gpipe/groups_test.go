package gpipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// groupWays are the ways to run a network with g groups, which must not change its
// bits: over replicas too.
func groupWays(g, examples int) []factor {
	var replicas []int
	for r := 1; r <= g; r++ {
		if r == 1 || g%r == 0 && bits.OnesCount(uint(g/r)) == 1 {
			replicas = append(replicas, r)
		}
	}
	micros := []int{1, 2, 3, examples / g}
	for len(micros) > 1 && micros[len(micros)-2] >= examples/g {
		micros = append(micros[:len(micros)-2], examples/g)
	}
	r := factor{name: "R", set: func(w *way, i int) { w.Replicas, w.Groups = replicas[i], g }}
	for _, n := range replicas {
		r.levels = append(r.levels, strconv.Itoa(n))
	}
	m := factor{name: "M", set: func(w *way, i int) { w.MicroBatches = micros[i] }}
	for _, n := range micros {
		m.levels = append(m.levels, strconv.Itoa(n))
	}
	update := factor{"update", []string{"whole", "divided"}, func(w *way, i int) { w.ShardUpdate = i == 1 }}
	all := []factor{r, m, update}
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
func TestG1Replicas(t *testing.T) {
	hashes := map[string]int{}
	groups, ties := []int{1, 2, 3, 4, 6, 8, 12}, []bool{true, false}
	if testing.Short() {
		groups, ties = []int{3, 4}, []bool{true}
	}
	for _, g := range groups {
		for _, tied := range ties {
			t.Run(fmt.Sprintf("G=%d,tied=%v", g, tied), func(t *testing.T) {
				l := small
				l.batch, l.steps = 29, 2
				l.model.Tied = tied
				p := l.pipeline(t)
				p.Groups = g
				want := l.train(t, p)
				want.changes(t)
				if other := hashes[want.hash]; other != 0 {
					t.Errorf("%d groups have the hash of %d: the bits do not show the groups", g, other)
				}
				hashes[want.hash] = g
				everyWayOf(t, groupWays(g, l.batch), l.batch, func(t *testing.T, w way) {
					l.model.Fine = w.fine
					if got := l.train(t, w.of(l.pipeline(t))); got != want {
						t.Errorf("got  %v\nwant %v", got, want)
					}
				})
			})
		}
	}
}

// A group without examples, as at an epoch's end, adds nothing, wherever it is.
func TestShortMiniBatchOfGroups(t *testing.T) {
	short := small
	short.batch = 3 // of 8 groups
	hash := func(r int) string {
		l := small
		l.batch = 16
		p := l.pipeline(t)
		p.Groups, p.Replicas, p.MicroBatches, p.Partitions = 8, r, 2, 2
		tr, err := p.Open(InputOf(l.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for i, from := range []lm{l, short, l} {
			if _, err := tr.Step(t.Context(), from.data(i)); err != nil {
				t.Fatal(err)
			}
		}
		return tr.Hash()
	}
	want := hash(1)
	for _, r := range []int{2, 4, 8} {
		if got := hash(r); got != want {
			t.Errorf("R = %d: %s, want %s", r, got, want)
		}
	}
}

// What cannot be divided is refused with what could be.
func TestGroupsRefused(t *testing.T) {
	for _, c := range []struct {
		r, g, m int
		says    string
	}{
		{2, 6, 1, "6 groups on 2 replicas: want 2, 4, 8, ... groups"},
		{3, 4, 1, "4 groups on 3 replicas: want 3, 6, 12, ... groups"},
		{-1, 1, 1, "-1 replicas: want 1 to"},
		{1, -1, 1, "-1 groups: want 1 or more"},
		{1, 10, 1, "10 groups of a mini-batch of 9: want at most one group an example"},
		{10, 0, 1, "10 groups of a mini-batch of 9: want at most one group an example"},
		{1, 4, 3, "3 micro-batches in each of 4 groups of a mini-batch of 9: want at most one micro-batch an example"},
	} {
		p := small.pipeline(t)
		p.Replicas, p.Groups, p.MicroBatches = c.r, c.g, c.m
		if err := p.Validate(InputOf(small.data(0))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("R = %d, G = %d, M = %d: %v, want %s", c.r, c.g, c.m, err, c.says)
		}
	}
}

// TestG1ReplicasOfImages is TestG1Replicas for networks with batch norm: one hash, and
// the same tallies in float64, for each number of groups and of micro-batches, and for
// each scope. With statistics of several replicas, a group may have a single value.
func TestG1ReplicasOfImages(t *testing.T) {
	type result struct {
		hash    string
		tallies string
	}
	for name, n := range map[string]images{"amoebanet": smallAmoebaNet, "resnet": smallResNet} {
		n.sizes = []int{17, 17, 13}
		type bits struct {
			groups int
			scope  Scope
		}
		all := []bits{{2, ReplicaScope}, {3, ReplicaScope}, {4, ReplicaScope}, {2, AllScope}, {3, AllScope}, {4, AllScope}, {4, 2}, {6, 3}, {6, 2}, {8, 2}, {8, 4}, {8, 8}}
		if testing.Short() {
			all = []bits{{4, ReplicaScope}, {3, AllScope}, {4, 2}}
		}
		for _, of := range all {
			g, least := of.groups, n.least
			if of.scope != ReplicaScope {
				least = 1
			}
			t.Run(fmt.Sprintf("%s,G=%d,%v", name, g, of.scope), func(t *testing.T) {
				run := func(t *testing.T, p Pipeline) result {
					tr := n.open(t, p)
					for i := range n.sizes {
						r, err := tr.Step(t.Context(), n.data(i))
						if err != nil {
							t.Fatal(err)
						}
						checkTimeline(t, tr, r)
					}
					got := result{hash: tr.Hash()}
					tallies := sha256.New()
					byPath := map[string][]float64{}
					for _, d := range tr.devices {
						for _, m := range d.moving {
							byPath[tr.net.paths[m.Mean]] = m.tally
						}
					}
					for _, path := range slices.Sorted(maps.Keys(byPath)) {
						fmt.Fprintln(tallies, path, byPath[path])
					}
					got.tallies = hex.EncodeToString(tallies.Sum(nil))
					return got
				}
				wants := map[int]result{}
				want := func(m int) result {
					if _, ok := wants[m]; !ok {
						p := n.pipeline(t, false)
						p.MicroBatches, p.Groups, p.BatchNormScope = m, g, of.scope
						if of.scope != ReplicaScope {
							p.Replicas = g
						}
						wants[m] = run(t, p)
					}
					return wants[m]
				}
				everyWayOf(t, groupWays(g, n.sizes[0]), n.sizes[0], func(t *testing.T, w way) {
					w.MicroBatches = min(w.MicroBatches, n.sizes[len(n.sizes)-1]/g/least)
					if w.BatchNormScope = of.scope; of.scope != ReplicaScope {
						w.Replicas = g
					}
					if got := run(t, w.of(n.pipeline(t, w.fine))); got != want(w.MicroBatches) {
						t.Errorf("got  %v\nwant %v", got, want(w.MicroBatches))
					}
				})
			})
		}
	}
}

// Replicas divide an evaluation and a prediction, and their results are one replica's
// to the bit: losses, ranks, outputs, and memory as planned.
func TestEvaluateReplicas(t *testing.T) {
	type result struct {
		loss    float64
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
		tr, err := openForAll(p, InputOf(l.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		e, err := tr.Evaluate(t.Context(), l.data(5))
		if err != nil {
			t.Fatal(err)
		}
		out, err := tr.Predict(t.Context(), l.data(5).Inputs...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Step(t.Context(), l.data(1)); err != nil {
			t.Fatal(err)
		}
		checkMemory(t, tr)
		return result{e.Loss, e.Correct, fmt.Sprint(e.Ranks), fmt.Sprint(out[0].F32)}
	}
	want := run(1, Host)
	for _, r := range []int{2, 3, 8} {
		for _, kind := range []Kind{Host, Emulated} {
			if got := run(r, kind); got != want {
				t.Errorf("R = %d, %v: got %v, want %v", r, kind, got, want)
			}
		}
	}
}

// Evaluating fewer examples than there are replicas leaves some without work.
func TestEvaluateFewExamples(t *testing.T) {
	few := small
	few.batch = 2
	loss := func(r int) float64 {
		p := small.pipeline(t)
		p.Replicas = r
		tr, err := openForAll(p, InputOf(small.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		e, err := tr.Evaluate(t.Context(), few.data(5))
		if err != nil {
			t.Fatal(err)
		}
		return e.Loss
	}
	if got, want := loss(4), loss(1); got != want {
		t.Errorf("loss %v, want %v", got, want)
	}
}

// Divided updates: R replicas have one tensor of optimiser state together, to whole
// blocks; averages of the weights, gradients and weights are those of undivided ones.
func TestShardUpdate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	type result struct{ hash, averaged, gradients string }
	l := large
	l.steps = 2
	run := func(r int, shard bool) (result, []*Plan) {
		p := l.pipeline(t)
		p.Replicas, p.Groups, p.Partitions, p.ShardUpdate = r, 4, 2, shard
		p.EMA = nn.EMA{Decay: 0.9}
		p.Evaluating = InputOf(l.data(0))
		tr, err := p.Open(InputOf(l.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for i := range l.steps {
			s, err := tr.Step(t.Context(), l.data(i))
			if err != nil {
				t.Fatal(err)
			}
			checkTimeline(t, tr, s)
		}
		got := result{hash: tr.Hash(), gradients: hashOf(tr.Gradients())}
		if err := tr.Averaged(func() error {
			got.averaged = tr.Hash()
			_, err := tr.Evaluate(t.Context(), l.data(9))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if again := tr.Hash(); again != got.hash {
			t.Errorf("R = %d: after Averaged the weights are %s, before %s", r, again, got.hash)
		}
		if _, err := tr.Step(t.Context(), l.data(7)); err != nil {
			t.Fatal(err)
		}
		got.hash += tr.Hash()
		checkMemory(t, tr)
		return got, tr.Plans()
	}
	want, whole := run(1, false)
	for _, r := range []int{2, 4} {
		got, plans := run(r, true)
		if got != want {
			t.Errorf("R = %d: got %v, want %v", r, got, want)
		}
		for k := range 2 {
			var sum int64
			for replica := range r {
				sum += plans[replica*2+k].Bytes[OptimizerState]
			}
			if least := whole[k].Bytes[OptimizerState]; sum < least || sum > least+int64(r)<<14 {
				t.Errorf("R = %d, stage %d: %d bytes of state in all, want %d", r, k, sum, least)
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
	p := Pipeline{Loss: nn.CrossEntropy{}, Optimizer: nn.Adam{}, Replicas: 4, Devices: []Device{DeviceOf(a)}}
	for i, out := range []int{width, width, 2 * width} {
		p.Layers = append(p.Layers, nn.NewDense(fmt.Sprint("dense", i), nn.DenseConfig{In: width, Out: out, NoBias: true}))
	}
	in := Input{Examples: 4, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{DType: graph.I32}}}
	want := 16 * reduction.BlockFloats * floatBytes * (2*3 + 1.0) // the gradient is only read
	for _, p.ShardUpdate = range []bool{false, true} {
		if p.ShardUpdate {
			want /= 4
		}
		planned, err := p.Plans(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range planned.Plans {
			if got := plan.UpdateBytes(); got != want {
				t.Errorf("divided: %v, %v: %v bytes, want %v", p.ShardUpdate, plan.At, got, want)
			}
		}
		s, err := p.Simulate(in, Modelling{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.UpdateSeconds, a.Moving(accelerator.Update, want); got != want {
			t.Errorf("divided: %v: an update of %v s, want %v", p.ShardUpdate, got, want)
		}
	}
}

// Of a divided update a simulation shows the replica with most of it: 3 replicas have 1,
// 2 and 1 of 4 blocks.
func TestDividedUpdateIsTheFullest(t *testing.T) {
	const width = 4 * 256
	a := chip()
	a.Packing = true // as Plans has it
	p := Pipeline{Loss: nn.CrossEntropy{}, Optimizer: nn.Adam{}, Replicas: 3, ShardUpdate: true, Devices: []Device{DeviceOf(a)}}
	p.Layers = []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: width, Out: 256, NoBias: true})}
	in := Input{Examples: 3, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{DType: graph.I32}}}
	planned, err := p.Plans(in)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Simulate(in, Modelling{Accounting: FullAccounting})
	if err != nil {
		t.Fatal(err)
	}
	first, second := planned.Plans[0].Peak, planned.Plans[1].Peak
	if len(s.Devices) != 1 || s.Devices[0].PeakBytes != second || second <= first {
		t.Errorf("devices %+v, want one of %d bytes, more than the first replica's %d", s.Devices, second, first)
	}
}
