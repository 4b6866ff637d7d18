package gpipe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// chip is an accelerator with round figures: a product's operation takes as long
// as its FLOPs in nanoseconds, and memory is free.
func chip() *accelerator.Accelerator {
	return &accelerator.Accelerator{Name: "chip", BF16: 1e9, F32: 1e9, Memory: 1 << 40, Bandwidth: 1e18, Lanes: 1}
}

// even is a network whose tensors are all multiples of 64 bytes in either dtype.
var even = lm{model: transformer.Config{Layers: 4, Dim: 32, FeedForward: 64, Heads: 4, Vocab: 32, SeqLen: 16}, batch: 8}

func (l lm) modelled(t *testing.T, a *accelerator.Accelerator, k, m int) Pipeline {
	p := l.pipeline(t)
	p.Partitions, p.MicroBatches = k, m
	p.Devices = []Device{DeviceOf(a)}
	return p
}

func simulate(t *testing.T, l lm, p Pipeline, how Modelling) *Simulation {
	t.Helper()
	s := must(p.Simulate(InputOf(l.data(0)), how))(t)
	lists, _, err := schedule.Lists(p.Schedule, p.Partitions, p.Chunks, p.MicroBatches*max(p.Groups, 1), p.Checkpoint, p.LateRecompute)
	noError(t, err)
	noError(t, clocktest.Check(s.Timeline, lists))
	return s
}

// R replicas take the step of one with its part of the mini-batch, and the time of the
// all-reduce. Replicas with micro-batches of one size are simulated once.
func TestSimulateReplicas(t *testing.T) {
	link := clock.Link{Bandwidth: 1e6, Latency: 1e-3}
	one := simulate(t, even, even.modelled(t, chip(), 1, 2), Modelling{})
	many := even
	for _, c := range []struct {
		replicas int
		reduce   AllReduce
	}{
		{2, AllReduce{Kind: reduction.Tree, Link: link}},
		{1024, AllReduce{Kind: reduction.Ring, Link: link}},
		{1024, AllReduce{Kind: reduction.Torus, Torus: [2]int{32, 32}, Link: link}},
	} {
		many.batch = c.replicas * even.batch
		p := many.modelled(t, chip(), 1, 2)
		p.Replicas, p.AllReduce = c.replicas, c.reduce
		s := must(p.Simulate(InputOf(many.data(0)), Modelling{}))(t)
		var bytes float64
		for _, d := range one.Devices {
			bytes = max(bytes, float64(d.GradientBytes))
		}
		x, y := c.replicas, 1
		if c.reduce.Kind == reduction.Torus {
			x, y = 32, 32
		}
		reduce, gather := reduction.Cost(c.reduce.Kind, x, y, bytes, link)
		if math.Abs(s.ReduceSeconds-(reduce+gather)) > 1e-2*s.ReduceSeconds { // the tied weight's uses are added up
			t.Errorf("R = %d: %v s of all-reduce, want %v", c.replicas, s.ReduceSeconds, reduce+gather)
		}
		if want := one.Seconds + s.ReduceSeconds; math.Abs(s.Seconds-want) > 1e-9*want {
			t.Errorf("R = %d: a step of %v s, want %v", c.replicas, s.Seconds, want)
		}
		if math.Abs(s.Parts.Sum()-s.Seconds) > 1e-9*s.Seconds || s.Parts.Reduction <= 0 {
			t.Errorf("R = %d: parts %+v of %v s", c.replicas, s.Parts, s.Seconds)
		}
		testkit.Equal(t, len(s.Devices), 1, "R = %d: devices", c.replicas)
	}
	many.batch = 2*even.batch + 1 // a replica has an example more
	p := many.modelled(t, chip(), 2, 2)
	p.Replicas = 2
	s := must(p.Simulate(InputOf(many.data(0)), Modelling{Accounting: FullAccounting}))(t)
	for k, held := range s.MemoryOverTime() {
		highest := slices.MaxFunc(held, func(a, b MemoryPoint) int { return cmp.Compare(a.Bytes, b.Bytes) }).Bytes
		testkit.Equal(t, highest, s.Devices[k].PeakBytes, "the most that device %d holds", k)
	}
}

// On a chip whose memory is free a step takes the time of its products at peak rate:
// F as described, R the same, B twice that. The embedding's input has no gradient,
// which saves nothing here, as that gradient has no product.
func TestRooflineOfProducts(t *testing.T) {
	p := even.modelled(t, chip(), 1, 2)
	d := must(p.Describe(InputOf(even.data(0))))(t)
	var flops int64
	for _, l := range d.Layers {
		flops += l.FLOPs
	}
	want := 4 * float64(flops) * float64(even.batch) / 1e9
	if got := simulate(t, even, p, Modelling{}).Devices[0].BusySeconds; math.Abs(got-want) > 1e-6*want {
		t.Errorf("%v s of F, R and B, want %v", got, want)
	}
}

// A chip whose arithmetic takes almost no time is bound by traffic: bfloat16 takes
// half as long, except for what stays float32.
func TestRooflineOfTraffic(t *testing.T) {
	a := chip()
	a.F32, a.BF16, a.Bandwidth = 1e21, 1e21, 1e9
	p := even.modelled(t, a, 1, 2)
	wide := simulate(t, even, p, Modelling{}).Devices[0].BusySeconds
	narrow := simulate(t, even, p, Modelling{DType: graph.BF16}).Devices[0].BusySeconds
	if r := narrow / wide; r < 0.5 || r > 0.75 {
		t.Errorf("bfloat16 takes %.3f of float32's time: want a half, and more for parameters", r)
	}
	a.Fused = true
	if fused := simulate(t, even, p, Modelling{}).Devices[0].BusySeconds; fused >= wide {
		t.Errorf("fused %v s, unfused %v", fused, wide)
	}
	a.Fused, a.Tiled, a.Lanes = false, true, 64 // twice the width
	if tiled := simulate(t, even, p, Modelling{}).Devices[0].BusySeconds; tiled < 1.2*wide {
		t.Errorf("tiled %v s, untiled %v", tiled, wide)
	}
}

// alike is K equal layers, one for each stage: a product of f seconds for one example
// on [chip], and backward twice that, or once in the first layer, which passes no
// gradient on.
func alike(k, m, examples int) (p Pipeline, in Input, f float64) {
	const width = 32
	for i := range k {
		p.Layers = append(p.Layers, nn.NewDense(fmt.Sprintf("dense%d", i), nn.DenseConfig{In: width, Out: width, NoBias: true}))
	}
	p.Loss, p.Partitions, p.MicroBatches = nn.CrossEntropy{}, k, m
	a := chip()
	a.BF16, a.F32, a.Bandwidth = 2*width*width, 2*width*width, 1e30
	p.Devices = []Device{DeviceOf(a)}
	p.Optimizer = nn.SGD{}
	return p, Input{Examples: examples, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}}}, 1
}

// A simulated step of equal stages takes the time of the closed form, for every
// schedule and checkpoint mode: from layers to clock, nothing is lost or added.
// The first stage's backward tasks take f instead of 2f; where no other stage waits
// for them (K > 1, except naive) only the last one makes a difference.
func TestSimulateIsTheClosedForm(t *testing.T) {
	testkit.NotRaced(t)
	const examples = 12
	for _, s := range schedule.Plain() {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			for _, late := range []bool{false, true} {
				for k := 1; k <= 5; k++ {
					for _, m := range []int{1, 2, 3, 4, 6, 12} {
						p, in, f := alike(k, m, examples)
						p.Schedule, p.Checkpoint, p.LateRecompute = s, c, late
						f *= float64(examples / m)
						want := must(schedule.StepTime(s, c, late, k, m, f, f, 2*f))(t)
						if want -= f; k == 1 || s == schedule.Naive {
							want -= f * float64(m-1)
						}
						got := must(p.Simulate(in, Modelling{}))(t)
						if math.Abs(got.Seconds-want) > 1e-6*want {
							t.Errorf("%v, %v, late %v, K = %d, M = %d: %v s, the closed form has %v", s, c, late, k, m, got.Seconds, want)
						}
					}
				}
			}
		}
	}
}

// Padding both widths of a layer from 32 to 64 makes four times the FLOPs.
func TestRooflinePadsLanes(t *testing.T) {
	l := lm{model: transformer.Config{Layers: 1, Dim: 32, FeedForward: 32, Heads: 1, Vocab: 32, SeqLen: 32}, batch: 2}
	p := l.modelled(t, chip(), 1, 1)
	p.Checkpoint = schedule.Never
	narrow := simulate(t, l, p, Modelling{}).Devices[0].BusySeconds
	wide := chip()
	wide.Lanes = 64
	p.Devices = []Device{DeviceOf(wide)}
	// qkv is 96 wide, padded to 128: 4/3 in place of 2.
	got := simulate(t, l, p, Modelling{}).Devices[0].BusySeconds / narrow
	const d, t2 = 32.0, 32.0
	qkv, rest := d*3*d, d*d+2*d*d+d*d // projections, feed-forward, softmax
	attention := 2 * t2 * d
	if want := (qkv*2*4/3 + (rest+attention)*4) / (qkv + rest + attention); math.Abs(got-want) > 1e-6 {
		t.Errorf("%v times the FLOPs, want %v", got, want)
	}
}

// Activations halve in bfloat16; norms' statistics, log-sum-exps and ids do not.
func TestModelledMemoryByDType(t *testing.T) {
	c := even.model
	for _, test := range []struct{ k, m int }{{1, 1}, {2, 4}} {
		p := even.modelled(t, chip(), test.k, test.m)
		wide := simulate(t, even, p, Modelling{}).Devices
		narrow := simulate(t, even, p, Modelling{DType: graph.BF16}).Devices
		for k := range wide {
			w, n := wide[k], narrow[k]
			if w.ParamBytes != n.ParamBytes || w.GradientBytes != n.GradientBytes {
				t.Errorf("K=%d device %d: parameters take %d or %d bytes, gradients %d or %d", test.k, k, w.ParamBytes, n.ParamBytes, w.GradientBytes, n.GradientBytes)
			}
			rows := int64(even.batch / test.m * c.SeqLen)
			layers := int64(c.Layers / test.k)
			statistics := layers * rows * int64(2*2+c.Heads) * plan.FloatBytes // two norms, mean and deviation each; a log-sum-exp a head
			if k == test.k-1 {
				statistics += rows * plan.FloatBytes // the loss's log-sum-exp
			}
			if want := (w.ResidualBytes-statistics)/2 + statistics; n.ResidualBytes != want {
				t.Errorf("K=%d device %d: residuals %d bytes in bfloat16, %d in float32 with %d of statistics: want %d", test.k, k, n.ResidualBytes, w.ResidualBytes, statistics, want)
			}
		}
	}
}

// Attention that keeps its probabilities stores one per head, query and key.
func TestKeptScores(t *testing.T) {
	c := even.model
	p := even.modelled(t, chip(), 1, 1)
	without := simulate(t, even, p, Modelling{DType: graph.BF16}).Devices[0].ResidualBytes
	with := simulate(t, even, p, Modelling{DType: graph.BF16, KeepScores: true}).Devices[0].ResidualBytes
	rows := int64(c.Layers * even.batch * c.Heads * c.SeqLen)
	testkit.Equal(t, with, without+rows*int64(2*c.SeqLen-plan.FloatBytes), "bytes with probabilities, %d without", without)
}

// In float32, with packing buffers and full accounting, a modelled device plans the
// same memory as an emulated one, to the byte.
func TestModelledMemoryIsEmulated(t *testing.T) {
	for k := 1; k <= 3; k++ {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			a := chip()
			a.Packing = true
			p := small.modelled(t, a, k, 4)
			p.Checkpoint, p.Optimizer = c, nn.Adam{}
			s := simulate(t, small, p, Modelling{Accounting: FullAccounting})
			p.Devices = []Device{{Kind: Emulated}}
			tr := must(p.Open(InputOf(small.data(0))))(t)
			for i, plan := range tr.Plans() {
				testkit.Equal(t, s.Devices[i].PeakBytes, plan.Peak, "K=%d %v device %d: modelled", k, c, i)
			}
			tr.Close()
		}
	}
}

// The gradients of a tied weight travel between its stages at the end, which takes
// time.
func TestTiedExchangeTakesTime(t *testing.T) {
	tied := even
	tied.model.Tied = true
	a := chip()
	a.Link.Latency = 1
	s := simulate(t, tied, tied.modelled(t, a, 2, 2), Modelling{})
	var lastB float64
	exchanged := map[int]timeline.Event{}
	for e := range s.Timeline.All() {
		if e.Kind == timeline.Backward {
			lastB = max(lastB, e.End)
		}
		if e.Kind == timeline.Transfer && e.Micro == -1 {
			exchanged[e.At.Stage] = e
		}
	}
	want := int64(tied.model.Vocab * tied.model.Dim * plan.FloatBytes)
	if len(exchanged) != 2 || exchanged[0].Bytes != want || exchanged[1].Bytes != want {
		t.Errorf("exchanges %v, want %d bytes each way", exchanged, want)
	}
	if s.Seconds < lastB+1 {
		t.Errorf("step of %v s: the last B ends at %v and its gradient travels 1 s", s.Seconds, lastB)
	}
	if sum := s.Parts.Sum(); math.Abs(sum-s.Seconds) > 1e-9*sum {
		t.Errorf("parts add up to %v of %v s", sum, s.Seconds)
	}
}

// With several groups the gradients of a tied weight travel at the end of each, and its
// stages wait for them.
func TestTiedExchangeOfGroups(t *testing.T) {
	tied := even
	tied.model.Tied = true
	seconds := func(latency float64) float64 {
		a := chip()
		a.Link.Latency = latency
		p := tied.modelled(t, a, 2, 1)
		p.Groups = 4
		s := simulate(t, tied, p, Modelling{})
		exchanged := 0
		for e := range s.Timeline.All() {
			if e.Kind == timeline.Transfer && e.Micro == -1 {
				exchanged++
			}
		}
		testkit.Equal(t, exchanged, 2*4, "exchanges")
		return s.Seconds
	}
	// The first F and each B cross the link, and then each group's gradient.
	if free, slow := seconds(0), seconds(1); slow < free+8.5 {
		t.Errorf("a step of %v s, with a latency of 1 s %v", free, slow)
	}
}

// A scale after a product joins it: the product's result is neither written nor
// read, and there is one overhead. If anything else reads the result, it is written.
func TestRooflineFuses(t *testing.T) {
	a := &accelerator.Accelerator{Name: "slow", F32: 1e21, Bandwidth: 4, Lanes: 1, Overhead: 1000} // a float a second
	for _, test := range []struct {
		kept            bool
		unfused, joined float64
	}{
		{false, 32 + 64 + 32 + 1000 + 32 + 32 + 1000, 32 + 64 + 32 + 1000},
		{true, 32 + 64 + 32 + 1000 + 32 + 32 + 1000, 32 + 64 + 32 + 32 + 1000},
	} {
		g := &graph.Graph{}
		x := g.NewNode(graph.Input, "x", graph.F32, 4, 8)
		w := g.NewNode(graph.Param, "w", graph.F32, 8, 8)
		h := g.MatMul(x, w)
		out := []*graph.Node{g.Scale(h, 2)}
		if test.kept {
			out = append(out, h)
		}
		st := program.CompileEvaluate(program.Function{Graph: g, In: []*graph.Node{x}, Out: out, Params: []*graph.Node{w}}, 1, program.Storage{})
		for fused, want := range map[bool]float64{false: test.unfused, true: test.joined} {
			a.Fused = fused
			if got := a.Seconds(st.Forward, graph.F32); math.Abs(got-want) > 1e-6 {
				t.Errorf("kept %v, fused %v: %v s, want %v", test.kept, fused, got, want)
			}
		}
	}
}

// Variants of a compiled pipeline give the same as each alone; those with other programs or places are refused.
func TestVariants(t *testing.T) {
	p := even.modelled(t, must(accelerator.Named("p100"))(t), 3, 4)
	in, own := InputOf(even.data(0)), p.Variant()
	variants := []Variant{own, own, own, own, own, own} // the last one checks that nothing is left of those before
	variants[1].LateRecompute = true
	variants[2].Device.Link = clock.Link{}
	variants[3].Checkpoint = schedule.Never
	variants[4].Schedule = schedule.OneFOneB
	seconds := map[float64]bool{}
	compiled := must(p.Compiled(in, Modelling{}))(t)
	for i, v := range variants {
		got, q := must(compiled.Simulate(v, false))(t), p
		q.Devices = slices.Clone(p.Devices)
		q.Schedule, q.Checkpoint, q.LateRecompute, q.Devices[0] = v.Schedule, v.Checkpoint, v.LateRecompute, v.Device
		want := must(q.Simulate(in, Modelling{}))(t)
		if got.Seconds != want.Seconds || got.Devices[1].PeakBytes != want.Devices[1].PeakBytes {
			t.Errorf("variant %d: %v s, %d bytes; want %v s, %d bytes", i, got.Seconds, got.Devices[1].PeakBytes, want.Seconds, want.Devices[1].PeakBytes)
		}
		seconds[got.Seconds] = true
	}
	if len(seconds) < 4 {
		t.Errorf("the variants take %v", seconds)
	}
	for _, other := range []schedule.Schedule{99, schedule.ZBH1, schedule.Interleaved} {
		own.Schedule = other
		testkit.Refused(compiled.Simulate(own, false))(t)
	}
}
