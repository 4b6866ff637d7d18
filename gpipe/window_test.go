package gpipe

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// asyncNet is a network of testdata/pipedream.json and what it ends with.
type asyncNet struct {
	Seed           uint32
	Schedule       string
	Window         int
	Cut            []int
	Widths         []int
	Batch, Micro   int
	Rate, Momentum float32
	Weights        [][]float64
}

// draw is the generator of testdata/pipedream.py.
type draw uint32

func (d *draw) next() uint32 {
	*d = *d*1664525 + 1013904223
	return uint32(*d >> 16)
}

func (d *draw) grid(into []float32) {
	for i := range into {
		into[i] = float32(int(d.next()%2048)-1024) / 1024
	}
}

// pipeline returns the network with the weights that d draws.
func (n *asyncNet) pipeline(t *testing.T, d *draw) Pipeline {
	initial := func(_ *philox.Stream, _ graph.Shape, into []float32) { d.grid(into) }
	p := Pipeline{
		Loss: nn.CrossEntropy{}, Partitions: len(n.Cut), MicroBatches: n.Micro, Window: n.Window, Checkpoint: schedule.Never,
		Schedule: must(schedule.Parse(n.Schedule))(t),
		Cut:      Cut{Balance: n.Cut},
		Numerics: Numerics{Optimizer: nn.SGD{Momentum: n.Momentum}, LR: nn.ConstantLR(float64(n.Rate))},
	}
	for i := range len(n.Widths) - 1 {
		c := nn.DenseConfig{In: n.Widths[i], Out: n.Widths[i+1], Init: initial, BiasInit: initial, Activation: nn.Tanh}
		if i == len(n.Widths)-2 {
			c.Activation = nn.Linear
		}
		p.Layers = append(p.Layers, nn.NewDense(fmt.Sprintf("layer%d", i), c))
	}
	return p
}

func (n *asyncNet) batch(d *draw) nn.Batch {
	inputs, targets := make([]float32, n.Batch*n.Widths[0]), make([]int32, n.Batch)
	d.grid(inputs)
	for i := range targets {
		targets[i] = int32(d.next() % 5)
	}
	return nn.Batch{
		Inputs: []nn.Tensor{{Shape: []int{n.Batch, n.Widths[0]}, F32: inputs}}, Targets: []nn.Tensor{{Shape: []int{n.Batch}, I32: targets}},
		Count: n.Batch,
	}
}

// After 20 updates the weights are what an independent simulation of the definitions ends with, in
// float64, of which a version that is off by one would change 1e-2 (testdata/pipedream.py).
func TestWindowsAgainstNumPy(t *testing.T) {
	var nets []asyncNet
	noError(t, json.Unmarshal(must(os.ReadFile("testdata/pipedream.json"))(t), &nets))
	if len(nets) != 20 {
		t.Fatalf("%d networks, want 20", len(nets))
	}
	worst := 0.0
	for i, n := range nets {
		d := draw(n.Seed)
		p := n.pipeline(t, &d)
		tr := opened(t, p, Input{Examples: n.Batch, Inputs: []graph.Type{{Shape: graph.Shape{n.Widths[0]}}}, Targets: []graph.Type{{DType: graph.I32}}})
		for range 20 / n.Window {
			all := windowed(t, tr, func(int) nn.Batch { return n.batch(&d) })
			checkTraffic(t, all[0], []Load{BoundaryActivations, BoundaryGradients})
		}
		for j, w := range tr.Weights() {
			largest, off := 0.0, 0.0
			for e, v := range w.Data {
				largest, off = max(largest, math.Abs(n.Weights[j][e])), max(off, math.Abs(float64(v)-n.Weights[j][e]))
			}
			worst = max(worst, off/largest)
			if !(off <= 2e-5*largest) {
				t.Errorf("network %d, %s K=%d, window %d: %s is off by %.3g of its largest value", i, n.Schedule, len(n.Cut), n.Window, w.Path, off/largest)
			}
		}
		checkMemory(t, tr)
	}
	t.Logf("at most %.3g off", worst)
}

// windowed trains on a window of the trainer's next mini-batches, and checks what holds of any.
func windowed(t testing.TB, tr *Trainer, data func(i int) nn.Batch) []*Result {
	t.Helper()
	var batches []nn.Batch
	for i := range tr.net.Window {
		batches = append(batches, data(tr.Steps()+i))
	}
	all := must(tr.Window(t.Context(), batches))(t)
	checkTimeline(t, all[0])
	testkit.Equal(t, schedule.VerifyWindow(tr.net.Schedule, all[0].Times.Lists, schedule.Ends(len(batches), tr.net.MicroBatches)), nil)
	return all
}

// untied is small without what asynchronous schedules refuse.
func untied(t testing.TB) (lm, Pipeline) {
	l := small
	l.model.Tied, l.model.FinalNorm = false, true
	p := l.pipeline(t)
	p.ClipNorm, p.Partitions, p.MicroBatches, p.Window = 0, 3, 1, 4
	p.EMA, p.Schedule = nn.EMA{Decay: 0.9}, schedule.PipeDream
	return l, p
}

// The bits of an asynchronous schedule are the same on all kinds of devices, with all numbers of
// threads and in all checkpoint modes that it has. Those of pipedream-2bw depend on neither K, the cut nor M.
// Devices have room for as many versions of their weights as the definition says.
func TestWindowsG1(t *testing.T) {
	hashes := map[string]string{}
	for s, versions := range map[schedule.Schedule][]int{
		schedule.PipeDream: {3, 2, 1}, schedule.PipeDreamVertical: {3, 3, 3}, schedule.PipeDreamNoStash: {1, 1, 1}, schedule.PipeDream2BW: {2, 2, 2},
	} {
		t.Run(s.String(), func(t *testing.T) {
			l, p := untied(t)
			p.Schedule, p.Checkpoint = s, schedule.Never
			if s == schedule.PipeDream2BW {
				p.MicroBatches = 3
			}
			for k, plan := range must(p.Plans(InputOf(l.data(0))))(t).Plans {
				testkit.Equal(t, plan.Versions(), versions[k], "stage %d: versions of its weights", k)
			}
			want := train(t, p, 8, l.data)
			want.changes(t)
			if other, ok := hashes[want.hash]; ok {
				t.Errorf("%v and %s have one hash", s, other)
			}
			hashes[want.hash] = s.String()
			same := func(name string, change func(p *Pipeline)) {
				q := p
				q.Devices = []Device{{Threads: 1}}
				change(&q)
				testkit.Equal(t, train(t, q, 8, l.data), want, "%s", name)
			}
			same("emulated", func(p *Pipeline) { p.Devices[0].Kind = Emulated })
			same("two threads, free memory poisoned", func(p *Pipeline) { p.Devices[0].Threads, p.testing.poison = 2, true })
			if s != schedule.PipeDreamNoStash {
				same("recomputed", func(p *Pipeline) { p.Checkpoint = schedule.Always })
				same("the first kept", func(p *Pipeline) { p.Checkpoint = schedule.ExceptLast })
			}
			if s == schedule.PipeDream2BW {
				for k := 1; k <= 5; k++ {
					same(fmt.Sprint("K=", k), func(p *Pipeline) { p.Partitions, p.MicroBatches = k, 5 })
				}
			}
			if s == schedule.PipeDreamVertical { // which depends on K, and not on the cut
				same("another cut", func(p *Pipeline) { p.Balance = []int{1, 1, len(p.Layers) - 2} })
			}
		})
	}
}

// On one stage nothing is stale: pipedream is plain training, to the bit, also of a table that the stage uses
// twice. So is a window of one mini-batch on any number of stages.
func TestWindowOfOneStageIsPlainTraining(t *testing.T) {
	l, p := untied(t)
	tied := p
	tied.Layers = small.pipeline(t).Layers
	ends := func(p Pipeline) outcome {
		o := train(t, p, 8, l.data)
		o.before = "" // the last window, or the last mini-batch
		return o
	}
	for i, p := range []Pipeline{p, tied} {
		p.Partitions = 1
		plain := p
		plain.Schedule, plain.Window = schedule.GPipe, 0
		want := ends(plain)
		for _, s := range []schedule.Schedule{schedule.PipeDream, schedule.PipeDreamVertical, schedule.PipeDreamNoStash} {
			p.Schedule, p.Checkpoint = s, schedule.Never
			testkit.Equal(t, ends(p), want, "%v", s)
		}
		if i == 0 { // several stages do not share a table
			p.Schedule, p.Partitions, p.Window = schedule.PipeDream, 3, 1
			testkit.Equal(t, ends(p), want, "a window of one")
		}
	}
}

// Moving averages move by the statistics of each mini-batch alone, though those behind it have begun, and
// the mini-batches of a window may differ in size.
func TestWindowsOfImages(t *testing.T) {
	n := smallResNet
	p := n.pipeline(t, false)
	p.ClipNorm = 0
	ends := func(p Pipeline) outcome {
		o := train(t, p, 6, n.data)
		o.before, o.tallies = "", ""
		return o
	}
	want := ends(p)
	p.Schedule, p.Window = schedule.PipeDream, 6
	testkit.Equal(t, ends(p), want, "on one stage")
	p.Partitions = 3
	if got := ends(p); got.hash == want.hash {
		t.Errorf("on three stages nothing is stale: %v", got)
	}
	p.Schedule, p.MicroBatches, p.Window, p.Partitions = schedule.PipeDream2BW, 3, 3, 1
	want = ends(p)
	for k := 2; k <= 3; k++ {
		p.Partitions = k
		testkit.Equal(t, ends(p), want, "pipedream-2bw on %d stages", k)
	}
}

// A modelled window has the versions, the updates and the recomputation of its lists, and an update
// that keeps the version before takes longer than one in place.
func TestModelledWindow(t *testing.T) {
	l, p := untied(t)
	p.Devices = []Device{DeviceOf(must(accelerator.Named("p100"))(t))}
	sim := must(p.Simulate(InputOf(l.data(0)), Modelling{}))(t)
	updates := map[int][]float64{} // of each device, their seconds
	for e := range sim.Timeline.All() {
		if e.Kind == timeline.Update {
			updates[e.At.Stage] = append(updates[e.At.Stage], e.Seconds())
		}
	}
	for k, d := range sim.Devices {
		if d.Versions != 3-k || d.Staleness != 2-k || sim.Recomputed[k] != l.batch || len(updates[k]) != p.Window {
			t.Errorf("device %d: %d versions, staleness %d, %d examples recomputed, updates %v", k, d.Versions, d.Staleness, sim.Recomputed[k], updates[k])
		}
	}
	if first := updates[0]; sim.Window != p.Window || !(first[0] > first[p.Window-1]) {
		t.Errorf("a window of %d; on device 0, updates of %v s: want the first, which copies the weights, longer than the last", sim.Window, first)
	}
}

// Between two windows a training can be evaluated, copied and gone on with: also from the state
// of another cut, where the bits do not depend on that.
func TestWindowsResume(t *testing.T) {
	l, p := untied(t)
	p.Schedule, p.MicroBatches = schedule.PipeDream2BW, 3
	want := train(t, p, 8, l.data)
	p.Evaluating = InputOf(l.data(0))
	tr := opened(t, p, InputOf(l.data(0)))
	windowed(t, tr, l.data)
	must(tr.Evaluate(t.Context(), l.data(9)))(t)
	state := must(tr.State(nil))(t)
	testkit.Equal(t, state.Steps, p.Window, "steps of a state")
	p.Partitions = 2
	other := opened(t, p, InputOf(l.data(0)))
	noError(t, other.Restore(state))
	must(other.Differentiate(t.Context(), l.data(7)))(t)
	windowed(t, other, l.data)
	testkit.Equal(t, other.Hash(), want.hash, "resumed")
}

// Without its update, a step of an asynchronous schedule has the gradients of a synchronous one.
func TestDifferentiateWithoutWindow(t *testing.T) {
	l, p := untied(t)
	tr := opened(t, p, InputOf(l.data(0)))
	r := must(tr.Differentiate(t.Context(), l.data(0)))(t)
	before := tr.Hash()
	p.Schedule, p.Window = schedule.OneFOneB, 0
	plain := opened(t, p, InputOf(l.data(0)))
	want := must(plain.Differentiate(t.Context(), l.data(0)))(t)
	if before != plain.Hash() || r.Loss != want.Loss {
		t.Errorf("weights %s, loss %v: want %s, %v", before, r.Loss, plain.Hash(), want.Loss)
	}
	testkit.EqualAll(t, flat(tr.Gradients()), flat(plain.Gradients()), "gradients")
}

// Processes have the bits of one.
func TestWindowsInProcesses(t *testing.T) {
	l, p := untied(t)
	want := train(t, p, 8, l.data)
	ps := apart(t, []int{0, 1, 0}, InputOf(l.data(0)), func() Pipeline { _, p := untied(t); return p })
	losses := make([]string, len(ps.trainers))
	ps.all(func(rank int, tr *Trainer) {
		for range 2 {
			losses[rank] += reported(windowed(t, tr, l.data)...)
		}
	})
	hash := said(t, ps, "hash", func(tr *Trainer) string { return tr.Hash() })
	if hash != want.hash || losses[0] != want.losses || losses[1] != want.losses {
		t.Errorf("got  %s %q\nwant %s %q", hash, losses, want.hash, want.losses)
	}
}

// What would be wrong, or has no meaning, is refused in one line.
func TestWindowsRefuse(t *testing.T) {
	for want, change := range map[string]func(p *Pipeline){
		"pipedream with a window of 0 mini-batches: want 1 or more":        func(p *Pipeline) { p.Window = 0 },
		"want 0, or one of the schedules pipedream,":                       func(p *Pipeline) { p.Schedule = schedule.GPipe },
		"pipedream with clipping at a global norm":                         func(p *Pipeline) { p.ClipNorm = 1 },
		"pipedream with 2 replicas and 2 groups: want one of each":         func(p *Pipeline) { p.Replicas = 2 },
		"pipedream with 1 replicas and 2 groups: want one of each":         func(p *Pipeline) { p.Groups = 2 },
		"pipedream with late recomputation: want early":                    func(p *Pipeline) { p.LateRecompute = true },
		"pipedream with 2 chunks on each device: want 1":                   func(p *Pipeline) { p.Chunks = 2 },
		"pipedream with 3 micro-batches: want 1":                           func(p *Pipeline) { p.MicroBatches = 3 },
		"pipedream-2bw with 2 micro-batches on 3 partitions: want as many": func(p *Pipeline) { p.Schedule, p.MicroBatches = schedule.PipeDream2BW, 2 },
		"pipedream-nostash with checkpoint mode always: want never":        func(p *Pipeline) { p.Schedule = schedule.PipeDreamNoStash },
		"pipedream with embedding/table on partitions 0 and 2, which would update": func(p *Pipeline) {
			l := small
			l.model = transformer.Config{Layers: 2, Dim: 8, FeedForward: 8, Heads: 2, Vocab: 19, SeqLen: 7, Tied: true}
			p.Layers = l.pipeline(t).Layers
		},
	} {
		l, p := untied(t)
		change(&p)
		testkit.Refused(p.Open(InputOf(l.data(0))))(t, want)
	}
	l, p := untied(t)
	tr := opened(t, p, InputOf(l.data(0)))
	testkit.Refused(tr.Step(t.Context(), l.data(0)))(t, "want Window")
	testkit.Refused(tr.Window(t.Context(), []nn.Batch{l.data(0)}))(t, "a window of 1 mini-batches: want 4")
	p.Schedule, p.Window = schedule.OneFOneB, 0
	testkit.Refused(opened(t, p, InputOf(l.data(0))).Window(t.Context(), nil))(t, "want Step")
}
