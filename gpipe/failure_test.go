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

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// failing runs steps until one fails and returns its error.
func failing(t *testing.T, ctx context.Context, p Pipeline, b nn.Batch) error {
	t.Helper()
	tr := must(openForAll(p, InputOf(small.data(0))))(t)
	defer tr.Close()
	_, err := tr.Step(ctx, b)
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
		for _, s := range schedule.Plain() {
			t.Run(kind.String()+"/"+s.String(), func(t *testing.T) {
				p := small.pipeline(t)
				p.Partitions, p.MicroBatches, p.Schedule = 3, 4, s
				p.Devices = []Device{{Kind: kind, Threads: 2}}
				defer transporttest.NoneLeft(t)()
				f(t, p)
			})
		}
	}
}

func TestPanicInAStage(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		p.testing.inTask = func(at place.Place, kind timeline.Kind, micro int) {
			if at.Stage == 1 && kind == timeline.Backward && micro == 2 {
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
			defer transporttest.NoneLeft(t)()
			p := c.pipeline
			p.Replicas, p.Partitions = 3, 2
			tr := must(p.Open(InputOf(c.batch)))(t)
			defer tr.Close()
			testkit.Refused(tr.Step(t.Context(), c.batch))(t, c.says)
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
	tr := opened(t, p, InputOf(small.data(0)))
	if sizes, _ := tr.Sizes(); sizes[0] != 1 {
		t.Errorf("layers cut %v: want the dear first one alone", sizes)
	}
}

// A step with a weight that is not finite reports the origin of the value, and so does an
// evaluation, after which the trainer can be used.
func TestNaNIsNamedWhereItFirstAppeared(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		p.Layers[4] = poisoned{p.Layers[4], &nn.Param{Name: "poison", Shape: graph.Shape{small.model.Dim}, Init: nn.Constant(float32(math.NaN()))}}
		named := func(err error) {
			t.Helper()
			var nf *NonFiniteError
			if !errors.As(err, &nf) || nf.Where != p.Layers[4].Name() || nf.Op != "bias" {
				t.Errorf("%v: want the bias of %s", err, p.Layers[4].Name())
			}
		}
		named(failing(t, context.Background(), p, small.data(0)))
		evaluating := must(openForAll(p, InputOf(small.data(0))))(t)
		defer evaluating.Close()
		for range 2 {
			_, err := evaluating.Evaluate(t.Context(), small.data(0))
			named(err)
		}
		p.AllowNonFinite = true
		tr := must(p.Open(InputOf(small.data(0))))(t)
		defer tr.Close()
		if r, err := tr.Step(context.Background(), small.data(0)); err != nil || !math.IsNaN(r.Loss) {
			t.Errorf("with AllowNonFinite: %v, %v; want a loss of NaN", r, err)
		}
	})
}

func TestCancelledContext(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		ctx, cancel := context.WithCancel(context.Background())
		p.testing.inTask = func(at place.Place, kind timeline.Kind, micro int) {
			if at.Stage == 2 && kind == timeline.Forward && micro == 1 {
				cancel()
			}
		}
		testkit.Is(t, failing(t, ctx, p, small.data(0)), context.Canceled)
	})
}

func TestOutOfMemory(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches = 3, 4
	tr := must(p.Open(InputOf(small.data(0))))(t)
	var peaks []int64
	for _, plan := range tr.Plans() {
		peaks = append(peaks, plan.Peak)
	}
	tr.Close()
	testkit.Equal(t, tr.Hash(), "", "hash of a closed trainer")

	tied := small // on one device, with an accumulator for each use of a large table
	tied.model.Vocab = 1000
	one := tied.pipeline(t)
	planned := must(one.Plans(InputOf(tied.data(0))))(t).Plans[0]
	one.Devices = []Device{{Capacity: planned.Peak - 1}}
	var short *OutOfMemoryError
	table := int64(1000 * tied.model.Dim * plan.FloatBytes)
	if _, err := one.Open(InputOf(tied.data(0))); !errors.As(err, &short) || short.Category != Workspace || short.Wanted > planned.Bytes[Workspace]+table/2 {
		t.Errorf("%v: want a workspace of %d bytes", err, planned.Bytes[Workspace])
	}

	defer transporttest.NoneLeft(t)()
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
		testkit.Equal(t, open(k, peak), nil, "device %d with exactly its peak", k)
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

// mistaken is a layer with a defect, whatever its input.
type mistaken struct{ nn.Layer }

func (mistaken) Forward(_ *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{in[len(in)]}
}

// A layer's misuse, or its constructor's, is reported as a network that does not fit its input.
// A defect in a layer is not, wherever the layer is traced.
func TestDefectsAreNoMisfit(t *testing.T) {
	p, in := small.pipeline(t), InputOf(small.data(0))
	wide := in
	wide.Inputs = []graph.Type{{Shape: graph.Shape{99}, DType: graph.I32}}
	misused, wrong := p, p
	misused.Layers = append([]nn.Layer{nn.NewDense("a", nn.DenseConfig{In: 2})}, p.Layers...)
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
		for says, err := range map[string]error{"(1,99)": trace(p, wide), `dense "a": Out is 0`: trace(misused, in)} {
			if !errors.As(err, &misfit) || !errors.As(err, &misuse) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want a misfit that says %s", what, err, says)
			}
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
		tr := openedForAll(t, p, InputOf(small.data(0)))
		for i, n := range []int{9, 6, 2, 1} {
			b := small.data(i).Slice(0, n)
			stepped(t, tr, b)
		}
		hashes = append(hashes, tr.Hash())
		e := must(tr.Evaluate(t.Context(), small.data(9).Slice(0, 5)))(t)
		hashes = append(hashes, tr.Hash(), strconv.FormatFloat(e.Loss, 'g', -1, 64))
	}
	if hashes[0] != hashes[3] || hashes[0] != hashes[1] || hashes[2] != hashes[5] {
		t.Errorf("short mini-batches: %v", hashes)
	}
	tr := opened(t, p, InputOf(small.data(0)))
	big := lm{model: small.model, batch: 10}.data(0)
	testkit.Refused(tr.Step(t.Context(), big))(t, "want at most 9")
}
