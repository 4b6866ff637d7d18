package gpipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/transport"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/safetensors"
)

// resumable is a network with state of some kind, and ways to run it that must not
// change a bit.
type resumable struct {
	name     string
	pipeline func(testing.TB) Pipeline
	data     func(i int) nn.Batch
	ways     []func(*Pipeline)
}

// resumables are a language model with Adam and an average of the weights, a ResNet
// with batch norm and RMSProp, a translator whose table is shared by stages, and an
// optimiser that reads norms.
func resumables() []resumable {
	one := func(p *Pipeline) {}
	divided := func(p *Pipeline) {
		p.Partitions, p.Replicas, p.ShardUpdate, p.Schedule = 3, 2, true, schedule.OneFOneB
	}
	return []resumable{
		{"transformer-lm", func(t testing.TB) Pipeline {
			p := small.pipeline(t)
			p.EMA, p.Groups = nn.EMA{Decay: 0.9}, 4
			p.Rates = []Rate{{Path: "embedding", Factor: 0.5}}
			return p
		}, small.data, []func(*Pipeline){
			one, divided,
			func(p *Pipeline) {
				p.Partitions, p.Replicas, p.MicroBatches = 8, 4, 2
				p.Devices = []Device{{Kind: Emulated, Threads: 2}}
			},
			func(p *Pipeline) { p.Partitions, p.Replicas, p.ShardUpdate, p.Checkpoint = 2, 4, true, schedule.Never },
		}},
		{"resnet", func(t testing.TB) Pipeline {
			p := smallResNet.pipeline(t, false)
			p.EMA, p.Groups, p.MicroBatches = nn.EMA{Decay: 0.9, Constant: true}, 2, 2
			return p
		}, smallResNet.data, []func(*Pipeline){
			one, divided,
			func(p *Pipeline) { p.Partitions, p.Replicas, p.Devices = 4, 2, []Device{{Threads: 2}} },
		}},
		{"transformer", func(t testing.TB) Pipeline {
			p := smallTranslation.pipeline(t)
			p.Optimizer, p.Groups = nn.SGD{Momentum: 0.9}, 2
			return p
		}, smallTranslation.data, []func(*Pipeline){
			one, divided,
			func(p *Pipeline) { p.Partitions, p.MicroBatches, p.Checkpoint = 4, 3, schedule.ExceptLast },
		}},
		{"lars", func(t testing.TB) Pipeline {
			p := small.layerWise(t, nn.LARS{Unscaled: true, Trust: 0.1})
			p.Groups = 4
			return p
		}, small.data, []func(*Pipeline){one, divided}},
		{"operations in parts", func(t testing.TB) Pipeline {
			p := uneven.layerWise(t, nn.LARS{Unscaled: true, Trust: 0.1})
			p.EMA, p.Groups, p.Blocks = nn.EMA{Decay: 0.9}, 2, 4
			return p
		}, uneven.data, []func(*Pipeline){
			one,
			func(p *Pipeline) { p.Tensor, p.Partitions, p.Schedule = 4, 2, schedule.ZBH1 },
			func(p *Pipeline) { p.Tensor, p.Replicas, p.Devices = 2, 2, []Device{{Kind: Emulated}} },
		}},
		{"operations in parts, one block", func(t testing.TB) Pipeline { return uneven.pipeline(t) }, uneven.data, []func(*Pipeline){
			one, func(p *Pipeline) { p.Tensor = 4 }, func(p *Pipeline) { p.Tensor, p.Partitions = 3, 4 },
		}},
		{"resnet in parts", func(t testing.TB) Pipeline {
			p := unevenSmallResNet.layerWise(t, false)
			p.Groups = 2
			return p
		}, unevenSmallResNet.data, []func(*Pipeline){
			one, func(p *Pipeline) { p.Tensor = 4 }, func(p *Pipeline) { p.Tensor, p.Partitions, p.Replicas = 3, 2, 2 },
		}},
		{"resnet in blocks", func(t testing.TB) Pipeline {
			p := unevenResNet.pipeline(t, false)
			p.Blocks = 4
			return p
		}, unevenResNet.data, []func(*Pipeline){one, func(p *Pipeline) { p.Tensor, p.Partitions = 4, 3 }}},
	}
}

func (r resumable) open(t testing.TB, way int) *Trainer {
	t.Helper()
	p := r.pipeline(t)
	r.ways[way](&p)
	return openedForAll(t, p, InputOf(r.data(0)))
}

func (r resumable) step(t testing.TB, tr *Trainer) string {
	t.Helper()
	b := r.data(tr.Steps())
	result := stepped(t, tr, b)
	return fmt.Sprintf("step %d: loss %.17g, norm %.17g, rate %v", tr.Steps(), result.Loss, result.GradNorm, result.LR)
}

// ends is what a training ends with: hashes of the weights and of the whole state, and an
// evaluation, with the averages if there are some.
func (r resumable) ends(t testing.TB, tr *Trainer) string {
	t.Helper()
	end := fmt.Sprint(tr.Hash(), " ", sumOfState(stateOf(t, tr)), " ", evaluated(t, tr, r.data(2)))
	if tr.net.EMA.Kept() {
		noError(t, tr.Averaged(func() error { end += " " + evaluated(t, tr, r.data(2)); return nil }))
	}
	return end
}

func stateOf(t testing.TB, tr *Trainer) *State {
	t.Helper()
	return must(tr.State(nil))(t)
}

// sumOfState is a digest of all names and values.
func sumOfState(s *State) string {
	h := sha256.New()
	add := func(what string, all []NamedWeights) {
		for _, w := range all {
			fmt.Fprintln(h, what, w.Path, w.Shape, len(w.Data))
			h.Write(safetensors.Append(nil, w.Data))
		}
	}
	fmt.Fprintln(h, s.Steps, s.Function)
	add("weights", s.Weights)
	for _, slot := range s.Slots {
		add(slot.Name, slot.Values)
	}
	add("average", s.Average)
	return hex.EncodeToString(h.Sum(nil))
}

// A training that stops after any step goes on with the same bits, run in any other way;
// and every way has the same state to stop with.
func TestResume(t *testing.T) {
	const steps = 4
	for _, r := range resumables() {
		t.Run(r.name, func(t *testing.T) {
			whole := r.open(t, 0)
			states, losses := []*State{stateOf(t, whole)}, []string{""}
			for range steps {
				losses = append(losses, r.step(t, whole))
				states = append(states, stateOf(t, whole))
			}
			want := r.ends(t, whole)
			if sumOfState(states[0]) == sumOfState(states[1]) {
				t.Fatal("training changes nothing")
			}
			for at, from := range states {
				sum := sumOfState(from)
				for way := range r.ways {
					if testing.Short() && (at+way)%2 == 0 {
						continue
					}
					tr := r.open(t, way)
					noError(t, tr.Restore(from))
					testkit.Equal(t, sumOfState(stateOf(t, tr)), sum, "way %d has another state at once after step %d", way, at)
					for tr.Steps() < steps {
						testkit.Equal(t, r.step(t, tr), losses[tr.Steps()], "way %d, resumed after step %d", way, at)
					}
					testkit.Equal(t, r.ends(t, tr), want, "way %d, resumed after step %d, ends with", way, at)
					tr.Close()
				}
			}
		})
	}
}

// What one schedule leaves goes on under any other, with any K, M and number of chunks:
// after each step of a training, its state is restored into a pipeline that is run in the
// next of a covering set of ways, which takes one step more. The state at once, the loss and
// what it ends with are as in a training that is never stopped.
func TestResumeUnderAnySchedule(t *testing.T) {
	testkit.NotRaced(t)
	l := small
	l.model.Fine = true // layers for three chunks on each of three devices
	r := resumable{"", func(t testing.TB) Pipeline {
		p := l.pipeline(t)
		p.EMA = nn.EMA{Decay: 0.9}
		return p
	}, l.data, []func(*Pipeline){func(*Pipeline) {}}}
	whole := r.open(t, 0)
	state := stateOf(t, whole)
	ways := slices.DeleteFunc(slices.Clone(factors), func(f factor) bool { return f.name == "cut" || f.name == "partitioner" })
	for name, w := range everyWay(ways, l.batch) {
		t.Run(name, func(t *testing.T) {
			r.ways = []func(*Pipeline){func(p *Pipeline) { *p = w.of(*p) }}
			tr := r.open(t, 0)
			noError(t, tr.Restore(state))
			testkit.Equal(t, sumOfState(stateOf(t, tr)), sumOfState(stateOf(t, whole)), "another state at once")
			testkit.Equal(t, r.step(t, tr), r.step(t, whole))
			state = stateOf(t, tr)
			testkit.Equal(t, r.ends(t, tr), r.ends(t, whole), "after step %d", tr.Steps())
		})
	}
}

// A state is a copy, and the memory of one that is not needed any more is used again.
func TestStateIsACopy(t *testing.T) {
	r := resumables()[0]
	tr := r.open(t, 1)
	r.step(t, tr)
	first := stateOf(t, tr)
	sum := sumOfState(first)
	r.step(t, tr)
	testkit.Equal(t, sumOfState(first), sum, "a step has changed the state before it")
	want := sumOfState(stateOf(t, tr))
	again := must(tr.State(first))(t)
	testkit.Equal(t, sumOfState(again), want, "a state in used memory is another one")
	if &again.Weights[0].Data[0] != &first.Weights[0].Data[0] || &again.Slots[1].Values[0].Data[0] != &first.Slots[1].Values[0].Data[0] {
		t.Error("the memory is not used again")
	}
}

// The size of the state that is counted before anything is allocated equals what is
// allocated, to the byte.
func TestStateBytes(t *testing.T) {
	for _, r := range resumables() {
		for way := range r.ways {
			tr := r.open(t, way)
			allocated := 0
			s := stateOf(t, tr)
			for _, all := range append(s.tensors(), s.Weights) {
				for _, w := range all {
					allocated += cap(w.Data) * plan.FloatBytes
				}
			}
			if got := tr.net.StateBytes(); got != float64(allocated) {
				t.Errorf("%s, way %d: %.0f bytes are counted, %d allocated", r.name, way, got, allocated)
			}
		}
	}
}

// Devices that together plan more memory than the machine has are refused before any is
// allocated, although each alone would get its memory. A copy of the state counts as well, and
// only if there is one.
func TestMoreThanTheMachineHas(t *testing.T) {
	memory, swap := machine.MemoryAndSwap()
	has := memory + swap
	if has == 0 {
		t.Skip("the machine's memory is not known")
	}
	// Two devices' weights and gradients take a multiple of the memory; a copy of the weights half of it.
	wide := func(multiple float64, copied bool) (Pipeline, Input) {
		p := small.pipeline(t)
		width := int(multiple * float64(has) / 4 / plan.FloatBytes / 1024)
		p.Layers = []nn.Layer{nn.NewDense("wide", nn.DenseConfig{In: width, Out: 1024}), nn.NewDense("back", nn.DenseConfig{In: 1024, Out: width})}
		p.Partitions, p.Optimizer, p.KeepsState = 2, nn.SGD{}, copied
		return p, Input{Examples: 1, Inputs: []graph.Type{{Shape: graph.Shape{width}, DType: graph.F32}}, Targets: []graph.Type{{DType: graph.I32}}}
	}
	for _, copied := range []bool{false, true} {
		p, in := wide(0.8, copied)
		if err := p.CheckMemory(in); (err != nil) != copied {
			t.Errorf("a copy: %v, and 0.8 of the memory without it: %v", copied, err)
		}
	}
	bytes := func(err error) (n float64) {
		t.Helper()
		if err == nil {
			t.Fatal("more than the machine has is accepted")
		}
		_, number, _ := strings.Cut(err.Error(), " take ")
		if _, e := fmt.Sscan(number, &n); e != nil {
			t.Fatal(err)
		}
		return n
	}
	var checked, planned [2]float64
	var state float64
	for i, copied := range []bool{false, true} {
		p, in := wide(1.5, copied)
		testkit.Refused(p.Open(in))(t, fmt.Sprintf("this machine has %d", has))
		several := p
		several.Transport = transport.InProcess() // others may hold a part of it, on machines of their own
		noError(t, several.CheckMemory(in))
		checked[i] = bytes(p.CheckMemory(in))
		n := must(p.network(in))(t)
		_, err := affordable(n, copied, func(place.Place) bool { return true })
		planned[i], state = bytes(err), n.StateBytes()
	}
	if checked[1]-checked[0] != state || planned[1]-planned[0] != state {
		t.Errorf("a copy adds %.0f and %.0f bytes, want %.0f", checked[1]-checked[0], planned[1]-planned[0], state)
	}
}

// A state that is not this training's is refused with what differs, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	r := resumables()[0]
	tr := r.open(t, 0)
	r.step(t, tr)
	before := sumOfState(stateOf(t, tr))
	for says, change := range map[string]func(*State){
		"computes another function":        func(s *State) { s.Function = "0" },
		"-1 steps: want 0 or more":         func(s *State) { s.Steps = -1 },
		`slots ["mean"]: want ["mean" "me`: func(s *State) { s.Slots = s.Slots[:1] },
		`slots ["mean_square" "mean"]`:     func(s *State) { slices.Reverse(s.Slots) },
		"no average of the weights":        func(s *State) { s.Average = nil },
		"which the network has":            func(s *State) { s.Weights = s.Weights[1:] },
		"which the network does not have":  func(s *State) { s.Average[0].Path += "x"; s.Average = append(s.Average, stateOf(t, tr).Average[0]) },
		"is there twice":                   func(s *State) { s.Weights = append(s.Weights, s.Weights[0]) },
		"has shape [1]: the network wants": func(s *State) { s.Slots[1].Values[0].Shape = []int{1} },
		"mean_square \"":                   func(s *State) { s.Slots[1].Values[0].Data = nil },
	} {
		s := stateOf(t, tr)
		change(s)
		testkit.Fails(t, tr.Restore(s), says)
		if sumOfState(stateOf(t, tr)) != before {
			t.Fatalf("%s: refused, and the state has changed", says)
		}
	}
	s := stateOf(t, tr)
	err := tr.Averaged(func() error {
		if tr.Restore(s) == nil {
			t.Error("restored below the averages")
		}
		testkit.Refused(tr.State(nil))(t)
		return nil
	})
	testkit.NoError(t, err)
}
