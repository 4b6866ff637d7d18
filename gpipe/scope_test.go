package gpipe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/transporttest"
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
	must(tr.Differentiate(t.Context(), b))(t)
	for _, g := range tr.Gradients() {
		var groups [][]float32
		for _, runner := range runners {
			groups = append(groups, runner.Grad(g.Path))
		}
		testkit.EqualAll(t, g.Data, reduction.Sum(groups), "the gradient of %s has other bits", g.Path)
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
					r := stepped(t, tr, n.data(0))
					checkTimeline(t, r)
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
					parts := must(r.Times.Breakdown())(t)
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
				testkit.Equal(t, hash(p), want, "scope %v, rank %d", scope, rank)
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
				defer transporttest.NoneLeft(t)()
				n := smallResNet
				p := wideResNet(t, 3)
				p.Partitions, p.MicroBatches, p.Devices = 2, 2, []Device{{Kind: kind, Threads: 2}}
				p.testing.inTask = func(at place.Place, what timeline.Kind, micro int) {
					if at == (place.Place{Replica: 1, Stage: 1}) && what == task && micro == 1 {
						panic("boom")
					}
				}
				tr := must(p.Open(InputOf(n.data(0))))(t)
				defer tr.Close()
				_, err := tr.Step(t.Context(), n.data(0))
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
	testkit.Refused(tr.Step(t.Context(), b))(t, "stem")
}

// Replicas that meet want as many micro-batches each.
func TestMeetingsOfAShortMiniBatch(t *testing.T) {
	n := smallResNet
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
	lm := opened(t, q, InputOf(l.data(0)))
	l.batch = 5
	testkit.Equal(t, lm.Prepare(InputOf(l.data(0))), nil)
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
	tpu := must(accelerator.Named("tpuv3"))(t)
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
		s := must(p.Simulate(in, Modelling{DType: graph.F32}))(t)
		list := must(schedule.Build(schedule.GPipe, 1, 1, schedule.Always, false))(t)
		noError(t, clocktest.Check(s.Timeline, slices.Repeat(list, len(s.Devices))))
		for e := range s.Timeline.All() {
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
			testkit.Equal(t, all, met*min(2, 1+examples%replicas), "scope %v, %d examples: meetings", scope, examples)
			if want := (float64(met*messages) + 6) * latency; math.Abs(slow-free-want) > 1e-9 {
				t.Errorf("scope %v, %d examples: latencies add %v s: want %v", scope, examples, slow-free, want)
			}
		}
	}
	// Replicas of both sizes wait for each other only where their statistics are together:
	// of 8 replicas 5 have 4 examples, so one pair has both.
	for examples, together := range map[int]bool{3*replicas + 4: false, 3*replicas + 5: true} {
		step(2, examples, 0)
		testkit.Equal(t, first[0] == first[1], together, "%d examples: the first meetings at %v s", examples, first)
	}
}

// TestWideBatchNormAgainstPyTorch: a step whose consecutive replicas take their statistics
// together, against PyTorch in one process, which normalises all examples of a micro-batch of
// these replicas together; replicas and micro-batches have different numbers of examples. Each scope has bits of its own, and that of all replicas by their
// number has those of the scope all.
func TestWideBatchNormAgainstPyTorch(t *testing.T) {
	three, eight := programtest.ReadOracle(t, "testdata/widebatchnorm.json"), programtest.ReadOracle(t, "testdata/scopebatchnorm.json")
	for _, m := range []int{1, 2} {
		step := func(oracle *programtest.Oracle, prefix string, replicas int, scope Scope) string {
			t.Helper()
			return batchNormAgainstPyTorch(t, oracle, fmt.Sprintf("%sm%d/", prefix, m), Pipeline{Replication: Replication{Replicas: replicas, BatchNormScope: scope}, MicroBatches: m})
		}
		step(three, "", 3, AllScope)
		hashes := map[string]bool{}
		for _, scope := range []Scope{2, 4, 8} {
			hashes[step(eight, fmt.Sprintf("n%v/", scope), 8, scope)] = true
		}
		if all := step(eight, "n8/", 8, AllScope); !hashes[all] || len(hashes) != 3 {
			t.Errorf("M = %d: %d different averages, and that of all replicas is one of them: %v", m, len(hashes), hashes[all])
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
	tr := opened(t, p, InputOf(b))
	for _, d := range tr.devices {
		for _, w := range d.weights {
			copy(w.w, oracle.Floats(tr.net.Params[w.param].Path))
		}
	}
	r := stepped(t, tr, b)
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
