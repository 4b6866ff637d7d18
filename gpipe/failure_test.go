package gpipe

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// noGoroutineLeft returns a function that waits until there are no more goroutines than now.
func noGoroutineLeft(t *testing.T) func() {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		for range 6000 { // a minute
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	}
}

// failing runs steps until one fails and returns its error.
func failing(t *testing.T, ctx context.Context, p Pipeline, b nn.Batch) error {
	t.Helper()
	tr, err := openForAll(p, InputOf(small.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	_, err = tr.Step(ctx, b)
	if err == nil {
		t.Fatal("the step did not fail")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has more than one line: %v", err)
	}
	if _, again := tr.Step(context.Background(), small.data(0)); again == nil {
		t.Error("a trainer whose step failed went on")
	}
	return err
}

func every(t *testing.T, f func(t *testing.T, p Pipeline)) {
	for _, kind := range []Kind{Host, Emulated} {
		for _, s := range []schedule.Schedule{schedule.GPipe, schedule.Naive, schedule.OneFOneB} {
			t.Run(kind.String()+"/"+s.String(), func(t *testing.T) {
				p := small.pipeline(t)
				p.Partitions, p.MicroBatches, p.Schedule = 3, 4, s
				p.Devices = []Device{{Kind: kind, Threads: 2}}
				defer noGoroutineLeft(t)()
				f(t, p)
			})
		}
	}
}

func TestPanicInAStage(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		p.testing.inTask = func(stage int, kind timeline.Kind, micro int) {
			if stage == 1 && kind == timeline.Backward && micro == 2 {
				panic("boom")
			}
		}
		err := failing(t, context.Background(), p, small.data(0))
		var at *StageError
		if !errors.As(err, &at) || at.At.Stage != 1 || at.Task != "B2" {
			t.Errorf("%v: want the panic of stage 1 in B2", err)
		}
	})
}

// A token outside the vocabulary panics in a kernel, on a worker's thread.
func TestPanicInAKernel(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		b := small.data(0)
		b.Inputs[0].I32[len(b.Inputs[0].I32)-1] = int32(small.model.Vocab)
		err := failing(t, context.Background(), p, b)
		var at *StageError
		if !errors.As(err, &at) || at.At.Stage != 0 || at.Task != "F3" {
			t.Errorf("%v: want the panic of stage 0 in F3", err)
		}
	})
}

// A replica that fails is named: here the last of three, by its last example.
func TestFailureOfAReplica(t *testing.T) {
	token := small.data(0)
	token.Inputs[0].I32[len(token.Inputs[0].I32)-1] = int32(small.model.Vocab)
	dense := Pipeline{Loss: nn.CrossEntropy{}, Layers: []nn.Layer{nn.NewDense("in", nn.DenseConfig{In: 2, Out: 4}), nn.NewDense("out", nn.DenseConfig{In: 4, Out: 3})}}
	value := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{6, 2}, F32: make([]float32, 12)}},
		Targets: []nn.Tensor{{Shape: []int{6}, I32: make([]int32, 6)}},
		Count:   6,
	}
	value.Inputs[0].F32[11] = float32(math.NaN())
	for _, c := range []struct {
		name     string
		pipeline Pipeline
		batch    nn.Batch
		says     string
	}{
		{"a token outside", small.pipeline(t), token, "replica 2, stage 0, F0: "},
		{"a value that is not finite", dense, value, "replica 2, stage 0, F0: output of in is NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer noGoroutineLeft(t)()
			p := c.pipeline
			p.Replicas, p.Partitions = 3, 2
			tr, err := p.Open(InputOf(c.batch))
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			if _, err := tr.Step(t.Context(), c.batch); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s", err, c.says)
			}
		})
	}
}

// poisoned is a layer whose weight is not finite.
type poisoned struct {
	nn.Layer
	p *nn.Param
}

func (l poisoned) Params() []*nn.Param { return append(l.Layer.Params(), l.p) }
func (l poisoned) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	out := l.Layer.Forward(t, in...)
	return []*graph.Node{t.AddBias(out[0], t.Param(l.p))}
}

// idle lists a parameter that it does not use.
type idle struct{ nn.Layer }

func (l idle) Params() []*nn.Param {
	return append(l.Layer.Params(), &nn.Param{Name: "idle", Shape: graph.Shape{1}, Init: nn.Zeros()})
}

// dear is a layer that states its own cost, in its own unit.
type dear struct {
	nn.Layer
	cost float64
}

func (l dear) Cost() float64 { return l.cost }

// GPipe's optional cost function c_i takes the place of the derived FLOPs.
func TestLayersSayWhatTheyCost(t *testing.T) {
	p := small.pipeline(t)
	for i, l := range p.Layers {
		p.Layers[i] = dear{l, []float64{0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3}[i]}
	}
	p.Partitions = 2
	tr, err := p.Open(InputOf(small.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if sizes, _ := tr.Sizes(); sizes[0] != 1 {
		t.Errorf("layers cut %v: want the dear first one alone", sizes)
	}
}

func TestNaNIsNamedWhereItFirstAppeared(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		p.Layers[4] = poisoned{p.Layers[4], &nn.Param{Name: "poison", Shape: graph.Shape{small.model.Dim}, Init: nn.Constant(float32(math.NaN()))}}
		err := failing(t, context.Background(), p, small.data(0))
		var nf *NonFiniteError
		if !errors.As(err, &nf) || nf.Where != p.Layers[4].Name() || nf.Op != "bias" {
			t.Errorf("%v: want the bias of %s", err, p.Layers[4].Name())
		}
		p.AllowNonFinite = true
		tr, err := p.Open(InputOf(small.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if r, err := tr.Step(context.Background(), small.data(0)); err != nil || !math.IsNaN(r.Loss) {
			t.Errorf("with AllowNonFinite: %v, %v; want a loss of NaN", r, err)
		}
	})
}

func TestCancelledContext(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		ctx, cancel := context.WithCancel(context.Background())
		p.testing.inTask = func(stage int, kind timeline.Kind, micro int) {
			if stage == 2 && kind == timeline.Forward && micro == 1 {
				cancel()
			}
		}
		if err := failing(t, ctx, p, small.data(0)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: want context.Canceled", err)
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches = 3, 4
	tr, err := p.Open(InputOf(small.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	var peaks []int64
	for _, plan := range tr.Plans() {
		peaks = append(peaks, plan.Peak)
	}
	tr.Close()

	defer noGoroutineLeft(t)()
	open := func(device int, capacity int64) error {
		p.Devices = []Device{{Capacity: peaks[0]}, {Capacity: peaks[1]}, {Capacity: peaks[2]}}
		p.Devices[device].Capacity = capacity
		tr, err := p.Open(InputOf(small.data(0)))
		if err == nil {
			tr.Close()
		}
		return err
	}
	for k, peak := range peaks {
		if err := open(k, peak); err != nil {
			t.Errorf("device %d with exactly its peak: %v", k, err)
		}
		for _, capacity := range []int64{peak - 1, peak / 2, peak / 10, 1} {
			err := open(k, capacity)
			var oom *OutOfMemoryError
			if !errors.As(err, &oom) {
				t.Fatalf("device %d with %d of %d bytes: %v, want out of memory", k, capacity, peak, err)
			}
			if oom.Device != k || oom.Wanted <= oom.Free || oom.Free > capacity || oom.Free < 0 || oom.Layer == "" {
				t.Errorf("device %d with %d of %d bytes: %+v", k, capacity, peak, oom)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(p *Pipeline, in *Input)
	}{
		{"9 partitions of 8 layers: want at most one partition a layer", func(p *Pipeline, _ *Input) { p.Partitions = 9 }},
		{"-1 partitions: want 1 to 8, the number of layers", func(p *Pipeline, _ *Input) { p.Partitions = -1 }},
		{"10 micro-batches of a mini-batch of 9: want at most one micro-batch an example", func(p *Pipeline, _ *Input) { p.MicroBatches = 10 }},
		{"-2 micro-batches: want 1 to 9, the mini-batch", func(p *Pipeline, _ *Input) { p.MicroBatches = -2 }},
		{"no layers", func(p *Pipeline, _ *Input) { p.Layers = nil }},
		{"no loss: want one such as nn.CrossEntropy{}, or your own", func(p *Pipeline, _ *Input) { p.Loss = nil }},
		{"balance", func(p *Pipeline, _ *Input) { p.Partitions, p.Balance = 2, []int{3, 4} }},
		{"balance", func(p *Pipeline, _ *Input) { p.Partitions, p.Balance = 2, []int{8, 0} }},
		{"2 costs for 8 layers", func(p *Pipeline, _ *Input) { p.Costs = []float64{1, 2} }},
		{"3 devices for 2 partitions", func(p *Pipeline, _ *Input) { p.Partitions, p.Devices = 2, make([]Device, 3) }},
		{"two layers named", func(p *Pipeline, _ *Input) { p.Layers = append(p.Layers, p.Layers[7]) }},
		{"two parameters with the path layer1/", func(p *Pipeline, _ *Input) {
			twin := small.pipeline(t)
			p.Layers = append(p.Layers, nn.Part("layer1", "another", twin.Layers[1]))
		}},
		{"layer 2 of 8 is nil: want an nn.Layer", func(p *Pipeline, _ *Input) { p.Layers[2] = nil }},
		{"gets no gradient: its layer lists it and does not use it", func(p *Pipeline, _ *Input) { p.Layers[2] = idle{p.Layers[2]} }},
		{"unknown schedule", func(p *Pipeline, _ *Input) { p.Schedule = 99 }},
		{"unknown partitioner", func(p *Pipeline, _ *Input) { p.Partitioner = 77 }},
		{"clipping at norm -1", func(p *Pipeline, _ *Input) { p.ClipNorm = -1 }},
		{"L2 of NaN", func(p *Pipeline, _ *Input) { p.L2 = math.NaN() }},
		{"one kind", func(p *Pipeline, _ *Input) {
			p.Partitions, p.Devices = 2, []Device{{Kind: Host}, {Kind: Emulated}}
		}},
		{"does not fit its input", func(_ *Pipeline, in *Input) { in.Inputs[0].Shape = graph.Shape{99} }},
	} {
		p := small.pipeline(t)
		in := InputOf(small.data(0))
		c.change(&p, &in)
		if tr, err := p.Open(in); err == nil {
			tr.Close()
			t.Errorf("accepted, want the refusal %q", c.want)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: want one line with %q", err, c.want)
		}
	}
}

// mistaken is a layer with a defect, whatever its input.
type mistaken struct{ nn.Layer }

func (mistaken) Forward(_ *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{in[len(in)]}
}

// A layer's misuse is reported as a network that does not fit its input. A defect in
// a layer is not, wherever the layer is traced.
func TestDefectsAreNoMisfit(t *testing.T) {
	p, in := small.pipeline(t), InputOf(small.data(0))
	wide := in
	wide.Inputs = []graph.Type{{Shape: graph.Shape{99}, DType: graph.I32}}
	wrong := p
	wrong.Layers = slices.Clone(p.Layers)
	wrong.Layers[2] = mistaken{wrong.Layers[2]}
	for what, trace := range map[string]func(Pipeline, Input) error{
		"open":        func(p Pipeline, in Input) error { _, err := p.Open(in); return err },
		"plans":       func(p Pipeline, in Input) error { _, err := p.Plans(in); return err },
		"describe":    func(p Pipeline, in Input) error { _, err := p.Describe(in); return err },
		"fingerprint": func(p Pipeline, in Input) error { _, err := p.Fingerprint(in); return err },
	} {
		var misfit *MisfitError
		var misuse *graph.Misuse
		if err := trace(p, wide); !errors.As(err, &misfit) || !errors.As(err, &misuse) {
			t.Errorf("%s: %v, want a misfit", what, err)
		}
		func() {
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					t.Errorf("%s: the defect was taken for something else", what)
				}
			}()
			t.Errorf("%s: %v, want the defect", what, trace(wrong, in))
		}()
	}
}

// A short mini-batch at an epoch's end runs in the same memory, with as many
// micro-batches as it has examples if those are fewer.
func TestShortMiniBatch(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches, p.testing.poison = 3, 4, true
	q := p
	q.Partitions, q.MicroBatches = 1, 1
	var hashes []string
	for _, p := range []Pipeline{p, q} {
		tr, err := openForAll(p, InputOf(small.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for i, n := range []int{9, 6, 2, 1} {
			b := small.data(i).Slice(0, n)
			if _, err := tr.Step(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		hashes = append(hashes, tr.Hash())
		e, err := tr.Evaluate(t.Context(), small.data(9).Slice(0, 5))
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, tr.Hash(), strconv.FormatFloat(e.Loss, 'g', -1, 64))
	}
	if hashes[0] != hashes[3] || hashes[0] != hashes[1] || hashes[2] != hashes[5] {
		t.Errorf("short mini-batches: %v", hashes)
	}
	tr, err := p.Open(InputOf(small.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	big := lm{model: small.model, batch: 10}.data(0)
	if _, err := tr.Step(t.Context(), big); err == nil || !strings.Contains(err.Error(), "want at most 9") {
		t.Errorf("a mini-batch of 10 where 9 were planned: %v", err)
	}
}
