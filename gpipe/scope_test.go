package gpipe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// wideResNet runs a small ResNet with the statistics of all replicas.
func wideResNet(t testing.TB, replicas int) Pipeline {
	p := smallResNet.pipeline(t, false)
	p.Replicas, p.BatchNormScope = replicas, AllScope
	return p
}

// reordered are the examples of a batch of images in another order.
func reordered(b nn.Batch, order []int) nn.Batch {
	x, labels := b.Inputs[0], b.Targets[0]
	per := len(x.F32) / x.Shape[0]
	out := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: x.Shape, F32: make([]float32, len(x.F32))}},
		Targets: []nn.Tensor{{Shape: labels.Shape, I32: make([]int32, len(labels.I32))}},
		Count:   b.Count,
	}
	for to, from := range order {
		copy(out.Inputs[0].F32[to*per:(to+1)*per], x.F32[from*per:(from+1)*per])
		out.Targets[0].I32[to] = labels.I32[from]
	}
	return out
}

// TestWideBatchNormIsOneReplicas: with statistics of all replicas a step is that of one
// replica whose micro-batches have the same examples: as they come with M = 1, in another
// order with M > 1. They differ by rounding alone: sums over examples are cut elsewhere.
func TestWideBatchNormIsOneReplicas(t *testing.T) {
	// In units of a tensor's largest gradient, and of an average's largest value. Batch
	// norms amplify rounding: the largest difference seen is 1e-5.
	const tolerance = 5e-5
	n := smallResNet
	n.sizes = []int{17} // 6, 6 and 5 of three replicas
	for _, m := range []int{1, 2, 3} {
		for _, r := range []int{2, 3} {
			t.Run(fmt.Sprintf("M=%d,R=%d", m, r), func(t *testing.T) {
				step := func(p Pipeline, b nn.Batch) (float64, []NamedWeights, []NamedWeights) {
					p.Optimizer, p.ClipNorm, p.MicroBatches = nn.SGD{}, 0, m
					tr := n.open(t, p)
					s, err := tr.Step(t.Context(), b)
					if err != nil {
						t.Fatal(err)
					}
					checkTimeline(t, tr, s)
					states := slices.DeleteFunc(tr.Weights(), func(w NamedWeights) bool { return !strings.Contains(w.Path, "moving") })
					return s.Loss, tr.Gradients(), states
				}
				p := wideResNet(t, r)
				p.MicroBatches, p.Partitions, p.Groups = m, 3, r
				var order []int
				portions := (&plan.Network{Config: p.config().WithDefaults()}).Divide(n.sizes[0], plan.Training)
				for micro := range m {
					for _, s := range portions {
						for i := range s.Sizes[micro] {
							order = append(order, s.Firsts[micro]+i)
						}
					}
				}
				if m == 1 && !slices.IsSorted(order) {
					t.Fatalf("M = 1 with the examples %v", order)
				}
				loss, gradients, states := step(p, n.data(0))
				wantLoss, wantGradients, wantStates := step(n.pipeline(t, false), reordered(n.data(0), order))
				if d := math.Abs(loss - wantLoss); d > 1e-6*wantLoss {
					t.Errorf("loss %v, want %v", loss, wantLoss)
				}
				compare := func(got, want []NamedWeights) {
					for i, w := range want {
						var exact []float64
						for _, v := range w.Data {
							exact = append(exact, float64(v))
						}
						programtest.CloseTo(t, got[i].Path, got[i].Data, exact, tolerance)
					}
				}
				compare(gradients, wantGradients)
				compare(states, wantStates)
			})
		}
	}
}

// TestScopeOfConsecutiveReplicas: with statistics of N consecutive replicas of R, a step is
// that of R/N replicas by themselves, whose micro-batches have the examples of N. They
// differ by rounding alone, and only R/N of the means that batch norms move by.
func TestScopeOfConsecutiveReplicas(t *testing.T) {
	const tolerance, replicas, examples = 5e-5, 8, 32
	n := smallResNet
	n.sizes = []int{examples}
	for _, span := range []int{2, 4, 8} {
		for _, m := range []int{1, 2} {
			t.Run(fmt.Sprintf("N=%d,M=%d", span, m), func(t *testing.T) {
				step := func(scope Scope, replicas int, b nn.Batch) []NamedWeights {
					p := n.pipeline(t, false)
					p.Optimizer, p.ClipNorm, p.MicroBatches, p.Partitions = nn.SGD{}, 0, m, 2
					p.Replicas, p.BatchNormScope = replicas, scope
					tr := n.open(t, p)
					s, err := tr.Step(t.Context(), b)
					if err != nil {
						t.Fatal(err)
					}
					checkTimeline(t, tr, s)
					states := slices.DeleteFunc(tr.Weights(), func(w NamedWeights) bool { return !strings.Contains(w.Path, "moving") })
					return append(tr.Gradients(), states...)
				}
				p := n.pipeline(t, false)
				p.Replicas, p.MicroBatches = replicas, m
				portions := (&plan.Network{Config: p.config().WithDefaults()}).Divide(examples, plan.Training)
				var order []int // of the examples on R/N replicas
				for first := 0; first < replicas; first += span {
					for micro := range m {
						for _, s := range portions[first : first+span] {
							for i := range s.Sizes[micro] {
								order = append(order, s.Firsts[micro]+i)
							}
						}
					}
				}
				got, want := step(Scope(span), replicas, n.data(0)), step(ReplicaScope, replicas/span, reordered(n.data(0), order))
				for i, w := range want {
					var exact []float64
					for _, v := range w.Data {
						exact = append(exact, float64(v))
					}
					programtest.CloseTo(t, got[i].Path, got[i].Data, exact, tolerance)
				}
			})
		}
	}
}

// together adds up values of programs that run beside each other, as the definition says.
type together struct {
	sync.Mutex
	gone chan struct{} // closed when all have met
	here []*program.Meeting
	left int
}

func newTogether(replicas int) *together {
	return &together{gone: make(chan struct{}), here: make([]*program.Meeting, replicas), left: replicas}
}

func (a *together) meet(replica int) func(program.Meeting) error {
	return func(m program.Meeting) error {
		a.Lock()
		gone := a.gone
		a.here[replica] = &m
		if a.left--; a.left == 0 {
			sum := a.here[0]
			for _, other := range a.here[1:] {
				sum.Add(sum.Sum, other.Sum)
			}
			for _, other := range a.here[1:] {
				copy(other.Sum, sum.Sum)
			}
			a.left, a.gone = len(a.here), make(chan struct{})
			close(gone)
		}
		a.Unlock()
		<-gone
		return nil
	}
}

// TestWideBatchNormByDefinition: gradients have the bits of the replicas' programs, run
// beside each other, with each statistic added up in ascending order of replicas.
func TestWideBatchNormByDefinition(t *testing.T) {
	testkit.NotRaced(t)
	for _, scope := range []Scope{AllScope, 2} {
		t.Run(scope.String(), func(t *testing.T) { batchNormByDefinition(t, scope) })
	}
}

func batchNormByDefinition(t *testing.T, scope Scope) {
	const replicas, examples = 4, 11 // 3, 3, 3 and 2
	n := smallResNet
	n.sizes = []int{examples}
	p := wideResNet(t, replicas)
	p.Partitions, p.BatchNormScope = 3, scope
	tr := n.open(t, p)
	b := n.data(0)

	span := p.config().Together()
	var all []*together
	for range replicas / span {
		all = append(all, newTogether(span))
	}
	runners := make([]*programtest.Runner, replicas)
	for r, portion := range tr.net.Divide(examples, plan.Training) {
		first, size := portion.Firsts[0], portion.Sizes[0]
		in := InputOf(b)
		s := trace.Into(&graph.Graph{OverReplicas: true}, p.Layers, 0, p.Loss, BatchOf(in.Inputs, size), BatchOf(in.Targets, size), true)
		runner := programtest.Compile(t, s.Function, make([]bool, len(s.Out)), 1)
		for _, w := range tr.Weights() {
			copy(runner.Param(w.Path), w.Data)
		}
		own := b.Slice(first, first+size)
		copy(runner.In(0), own.Inputs[0].F32)
		copy(programtest.Ints(runner.Feed(0)), own.Targets[0].I32)
		runner.Env.Seed, runner.Env.Example, runner.Env.LossScale = p.Seed, uint64(first), float32(1/float64(examples))
		runner.Options.Meet = all[r/span].meet(r % span)
		runners[r] = runner
	}
	var done sync.WaitGroup
	for _, runner := range runners {
		done.Go(func() {
			runner.Forward()
			runner.KeepAgain()
			runner.Backward()
		})
	}
	done.Wait()
	if _, err := tr.Differentiate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, g := range tr.Gradients() {
		var groups [][]float32
		for _, runner := range runners {
			groups = append(groups, runner.Grad(g.Path))
		}
		if !slices.Equal(g.Data, reduction.Sum(groups)) {
			t.Errorf("the gradient of %s has other bits", g.Path)
		}
	}
}

// TestMeetingsOfAStep: replicas meet once for each batch norm in each F and B, never in a
// recomputation, and the memory for what they keep is planned to the byte.
func TestMeetingsOfAStep(t *testing.T) {
	testkit.NotRaced(t)
	n := smallResNet
	norms := 0
	for _, l := range n.pipeline(t, false).Layers {
		for _, p := range l.Params() {
			if strings.HasSuffix(p.Name, "moving_mean") {
				norms++
			}
		}
	}
	for _, kind := range []Kind{Host, Emulated} {
		for _, c := range []schedule.Checkpoint{schedule.Never, schedule.ExceptLast, schedule.Always} {
			for _, s := range []schedule.Schedule{schedule.GPipe, schedule.OneFOneB} {
				t.Run(fmt.Sprint(kind, "/", c, "/", s), func(t *testing.T) {
					const m = 3
					p := wideResNet(t, 2)
					p.MicroBatches, p.Partitions, p.Checkpoint, p.Schedule = m, 2, c, s
					p.Devices = []Device{{Kind: kind}}
					train(t, p, len(n.sizes)-1, n.data) // without the short one
					tr := n.open(t, p)
					r, err := tr.Step(t.Context(), n.data(0))
					if err != nil {
						t.Fatal(err)
					}
					checkTimeline(t, tr, r)
					met := map[int]int{}
					for _, e := range r.Timeline.Events {
						if e.Kind == timeline.Meet {
							met[e.At.Replica]++
						}
					}
					for replica := range 2 {
						if met[replica] != 2*m*norms {
							t.Errorf("replica %d meets %d times: want %d, for %d batch norms", replica, met[replica], 2*m*norms, norms)
						}
					}
					parts, err := r.Times.Breakdown()
					if err != nil {
						t.Fatal(err)
					}
					if math.Abs(parts.Sum()-parts.Step) > 1e-9*parts.Step || parts.Reduction <= 0 {
						t.Errorf("parts %+v of a step of %v s", parts, parts.Step)
					}
				})
			}
		}
	}
}

// Replicas in processes of their own have the bits of those in one.
func TestWideBatchNormInProcesses(t *testing.T) {
	n := smallResNet
	hash := func(p Pipeline) string {
		tr, err := p.Open(InputOf(n.data(0)))
		if err != nil {
			t.Error(err)
			return ""
		}
		defer tr.Close()
		for i := range 2 {
			if _, err := tr.Step(t.Context(), n.data(i)); err != nil {
				t.Error(err)
			}
		}
		return tr.Hash()
	}
	for scope, replicas := range map[Scope]int{AllScope: 3, 2: 4} {
		pipeline := func() Pipeline {
			p := wideResNet(t, replicas)
			p.Partitions, p.MicroBatches, p.BatchNormScope = 2, 2, scope
			return p
		}
		want := hash(pipeline())
		var done sync.WaitGroup
		for rank, end := range transport.Ends(replicas, func(p place.Place) int { return p.Replica }) {
			p := pipeline()
			p.Transport = end
			done.Go(func() {
				if got := hash(p); got != want {
					t.Errorf("scope %v, rank %d: %s, want %s", scope, rank, got, want)
				}
			})
		}
		done.Wait()
	}
}

// A replica that fails while others wait for it ends the step, and is the one named.
func TestReplicaFailsBeforeAMeeting(t *testing.T) {
	for _, kind := range []Kind{Host, Emulated} {
		for _, task := range []timeline.Kind{timeline.Forward, timeline.Backward} {
			t.Run(fmt.Sprint(kind, "/", task), func(t *testing.T) {
				defer noGoroutineLeft(t)()
				n := smallResNet
				p := wideResNet(t, 3)
				p.Partitions, p.MicroBatches, p.Devices = 2, 2, []Device{{Kind: kind, Threads: 2}}
				p.testing.bound = func(r *chunkRun, what timeline.Kind, micro int) {
					if r.at == (place.Place{Replica: 1, Stage: 1}) && what == task && micro == 1 {
						panic("boom")
					}
				}
				tr, err := p.Open(InputOf(n.data(0)))
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				_, err = tr.Step(t.Context(), n.data(0))
				var at *StageError
				if !errors.As(err, &at) || at.At != (place.Place{Replica: 1, Stage: 1}) || at.Task != task.String()+"1" {
					t.Errorf("%v: want the failure of replica 1 in %v1", err, task)
				}
			})
		}
	}
}

// A statistic that is not finite ends the step and names a batch norm.
func TestWideBatchNormNotFinite(t *testing.T) {
	n := smallResNet
	p := wideResNet(t, 3)
	p.Partitions, p.MicroBatches = 2, 2
	tr := n.open(t, p)
	b := n.data(0)
	b.Inputs[0].F32[len(b.Inputs[0].F32)-1] = float32(math.Inf(1))
	_, err := tr.Step(t.Context(), b)
	if err == nil || !strings.Contains(err.Error(), "stem") {
		t.Errorf("%v: want the stem's layer named", err)
	}
}

// What cannot meet is refused with what could.
func TestScopeRefused(t *testing.T) {
	n := smallResNet
	for _, c := range []struct {
		r, g int
		says string
	}{
		{1, 4, "4 groups on 1 replicas: want one group on each, that is 1 groups or 4 replicas"},
		{2, 4, "4 groups on 2 replicas: want one group on each, that is 2 groups or 4 replicas"},
		{3, 0, ""},
		{1, 0, ""},
	} {
		p := wideResNet(t, c.r)
		p.Groups = c.g
		if err := p.Validate(InputOf(n.data(0))); c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("R = %d, G = %d: %v, want %s", c.r, c.g, err, c.says)
		}
	}
	for _, c := range []struct {
		r, g, scope int
		says        string
	}{
		{1, 0, 2, "batch norm over 2 replicas of 1: want a number that divides them"},
		{4, 0, 3, "batch norm over 3 replicas of 4: want a number that divides them"},
		{2, 4, 2, "batch norm over 2 replicas with 4 groups on 2 replicas: want one group on each, that is 2 groups or 4 replicas"},
		{2, 2, -2, "unknown scope -2 of batch norm"},
		{4, 0, 2, ""},
		{4, 0, 4, ""},
	} {
		p := wideResNet(t, c.r)
		p.Groups, p.BatchNormScope = c.g, Scope(c.scope)
		if err := p.Validate(InputOf(n.data(0))); c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("R = %d, G = %d, scope %d: %v, want %s", c.r, c.g, c.scope, err, c.says)
		}
	}
	p := wideResNet(t, 3)
	p.MicroBatches = 2
	tr := n.open(t, p)
	for examples, fits := range map[int]bool{9: true, 6: true, 3: true, 5: false, 4: false, 2: false} {
		in := InputOf(n.data(0))
		in.Examples = examples
		if err := tr.Prepare(in); fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "want 6 examples or more, a multiple of 3, or the scope replica") {
			t.Errorf("%d examples: %v", examples, err)
		}
	}
	// A network without batch norm has no meetings.
	l := small
	q := l.pipeline(t)
	q.Replicas, q.BatchNormScope, q.MicroBatches = 3, AllScope, 2
	lm, err := q.Open(InputOf(l.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer lm.Close()
	l.batch = 5
	if err := lm.Prepare(InputOf(l.data(0))); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"1", "0", "-1", "x", "", "65537", "2.0"} {
		if s, err := ParseScope(text); err == nil || !strings.Contains(err.Error(), "want replica, all or a number of replicas") {
			t.Errorf("scope %q: %v, %v", text, s, err)
		}
	}
	for text, want := range map[string]Scope{"replica": ReplicaScope, "all": AllScope, "4": 4} {
		if s, err := ParseScope(text); s != want || err != nil || s.String() != text {
			t.Errorf("scope %q: %v, %v", text, s, err)
		}
	}
}

// Modelled replicas meet over their links: each meeting takes an all-reduce's latencies.
func TestMeetingsAreModelled(t *testing.T) {
	tpu, err := accelerator.Named("tpuv3")
	if err != nil {
		t.Fatal(err)
	}
	n := smallResNet
	const latency, replicas = 1e-3, 8
	var first [2]float64 // meetings of the last step's first two replicas
	step := func(scope Scope, examples int, latency float64) (seconds float64, met int) {
		p := n.pipeline(t, false)
		p.Replicas, p.BatchNormScope, p.Checkpoint = replicas, scope, schedule.Always
		p.Devices = []Device{DeviceOf(tpu)}
		p.AllReduce = AllReduce{Link: clock.Link{Latency: latency}}
		in := InputOf(n.data(0))
		in.Examples, first = examples, [2]float64{}
		s, err := p.Simulate(in, Modelling{DType: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		if err := timeline.ValidateReplicas(s.Timeline, schedule.GPipe, 1, slices.Repeat([]int{1}, len(s.Devices)), schedule.Always, false); err != nil {
			t.Error(err)
		}
		for _, e := range s.Timeline.Events {
			if e.Kind == timeline.Meet {
				if met++; first[e.At.Replica] == 0 {
					first[e.At.Replica] = e.Start
				}
			}
		}
		return s.Seconds, met
	}
	_, met := step(AllScope, 3*replicas, 0)
	if _, none := step(ReplicaScope, 3*replicas, latency); none != 0 || met == 0 {
		t.Errorf("%d meetings, and %d of replicas by themselves", met, none)
	}
	// Halving and doubling over 8 replicas is six messages, for the gradients as well; over
	// 4 and 2 four and two. With replicas of two sizes, one of each is simulated.
	for scope, messages := range map[Scope]int{AllScope: 6, 8: 6, 4: 4, 2: 2} {
		for _, examples := range []int{3 * replicas, 3*replicas + 4, 3*replicas + 5} {
			free, all := step(scope, examples, 0)
			slow, _ := step(scope, examples, latency)
			if want := met * min(2, 1+examples%replicas); all != want {
				t.Errorf("scope %v, %d examples: %d meetings, want %d", scope, examples, all, want)
			}
			if want := (float64(met*messages) + 6) * latency; math.Abs(slow-free-want) > 1e-9 {
				t.Errorf("scope %v, %d examples: latencies add %v s: want %v", scope, examples, slow-free, want)
			}
		}
	}
	// Replicas of both sizes wait for each other only where their statistics are together:
	// of 8 replicas 5 have 4 examples, so one pair has both.
	for examples, together := range map[int]bool{3*replicas + 4: false, 3*replicas + 5: true} {
		step(2, examples, 0)
		if (first[0] == first[1]) != together {
			t.Errorf("%d examples: the first meetings at %v s", examples, first)
		}
	}
}

// TestWideBatchNormAgainstPyTorch: three replicas of two stages against PyTorch in one
// process, which normalises all examples of a micro-batch together.
func TestWideBatchNormAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/widebatchnorm.json")
	for _, m := range []int{1, 2} {
		t.Run(fmt.Sprint("M=", m), func(t *testing.T) {
			batchNormAgainstPyTorch(t, oracle, fmt.Sprintf("m%d/", m), Pipeline{Replication: Replication{Replicas: 3, BatchNormScope: AllScope}, MicroBatches: m})
		})
	}
}

// TestScopesAgainstPyTorch: eight replicas of which 2, 4 or 8 consecutive ones take their
// statistics together, against PyTorch, which normalises each of these subgroups by itself.
// All 8 have the bits of the scope that is all replicas.
func TestScopesAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/scopebatchnorm.json")
	const replicas = 8
	for _, m := range []int{1, 2} {
		hashes := map[string]Scope{}
		for _, scope := range []Scope{2, 4, 8} {
			t.Run(fmt.Sprintf("N=%v,M=%d", scope, m), func(t *testing.T) {
				p := Pipeline{Replication: Replication{Replicas: replicas, BatchNormScope: scope}, MicroBatches: m}
				hash := batchNormAgainstPyTorch(t, oracle, fmt.Sprintf("n%v/m%d/", scope, m), p)
				if before, ok := hashes[hash]; ok {
					t.Errorf("the averages of the scope %v have the bits of %v", scope, before)
				}
				hashes[hash] = scope
			})
		}
		all := batchNormAgainstPyTorch(t, oracle, fmt.Sprintf("n8/m%d/", m), Pipeline{Replication: Replication{Replicas: replicas, BatchNormScope: AllScope}, MicroBatches: m})
		if hashes[all] != replicas {
			t.Errorf("M = %d: the scope all has other bits than %d replicas", m, replicas)
		}
	}
}

// batchNormAgainstPyTorch compares a step of replicas of two stages with a case of an oracle
// of testdata/widebatchnorm.py: the loss, the gradients, and batch norms' moving averages. It
// returns the hash of the weights and averages after the step.
func batchNormAgainstPyTorch(t *testing.T, oracle *programtest.Oracle, prefix string, p Pipeline) string {
	t.Helper()
	const tolerance = 1e-5
	shape := oracle.Shape("x")
	conv := func(in, out, stride int) nn.Layer {
		return nn.NewConv2D("conv", nn.Conv2DConfig{In: in, Out: out, Kernel: [2]int{3, 3}, Stride: [2]int{stride, stride}, Padding: nn.Pad(1)})
	}
	norm := func() nn.Layer { return nn.NewBatchNorm("norm", nn.BatchNormConfig{Channels: 8, ReLU: true}) }
	b := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: shape, F32: oracle.Floats("x")}},
		Targets: []nn.Tensor{{Shape: shape[:1], I32: oracle.Ints("labels")}},
		Count:   shape[0],
	}
	p.Layers = []nn.Layer{
		nn.Sequential("a", conv(3, 8, 1), norm()),
		nn.Sequential("b", conv(8, 8, 2), norm()),
		nn.Sequential("c", nn.NewGlobalAvgPool("pool"), nn.NewDense("dense", nn.DenseConfig{In: 8, Out: 5})),
	}
	p.Loss, p.Partitions = nn.CrossEntropy{}, 2
	tr, err := p.Open(InputOf(b))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, d := range tr.devices {
		for _, w := range d.weights {
			copy(w.w, oracle.Floats(tr.net.Params[w.param].Path))
		}
	}
	r, err := tr.Step(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if want := oracle.Exact(prefix + "loss")[0]; math.Abs(r.Loss-want) > 2e-6*want {
		t.Errorf("loss %v, want %v", r.Loss, want)
	}
	for _, g := range tr.Gradients() {
		oracle.Close(t, prefix+"grad/"+g.Path, g.Data, tolerance)
	}
	for _, w := range tr.Weights() {
		if strings.Contains(w.Path, "moving") {
			oracle.Close(t, prefix+w.Path, w.Data, tolerance)
		}
	}
	return tr.Hash()
}
