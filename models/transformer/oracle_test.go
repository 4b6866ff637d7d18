package transformer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// Whole models against PyTorch in float64 (testdata/*.py): logits, loss, every
// gradient, and ten steps of Adam.
//
// The tolerance is in units of a tensor's largest magnitude. PyTorch's own run
// in float32 is off by at most 1.1e-6 (lm.py and translation.py --float32),
// ours by 1.5e-6; a kernel with another order of summation may need a little
// more. Adam makes a whole step of the smallest gradient, so weights would be
// off by 1e-3 and more if one gradient had the wrong sign.
const tolerance = 3e-6

func TestAgainstPyTorch(t *testing.T) {
	for _, file := range []string{"lm.json", "lm_tied.json", "lm_norm.json"} {
		for _, fine := range []bool{false, true} {
			t.Run(fmt.Sprint(file, "/fine=", fine), func(t *testing.T) { lmRecording(t, file, fine).compare(t) })
		}
	}
}

func lmRecording(t *testing.T, file string, fine bool) recording {
	oracle := programtest.ReadOracle(t, "testdata/"+file)
	var c struct {
		Vocab, Dim, FF, Heads, Layers, Time int
		Tied                                bool
		FinalNorm                           bool `json:"final_norm"`
	}
	oracle.Config(&c)
	layers := modeltest.Build(t, LM, Config{
		Layers: c.Layers, Dim: c.Dim, FeedForward: c.FF, Heads: c.Heads, Vocab: c.Vocab, SeqLen: c.Time, Tied: c.Tied, FinalNorm: c.FinalNorm, Fine: fine,
	})
	return recording{oracle, layers, []string{"ids"}, c.Dim}
}

// recording is a model with PyTorch's results.
type recording struct {
	*programtest.Oracle
	layers []nn.Layer
	inputs []string // names of the input tensors, all of integers
	inner  int      // width of all heads
}

// compile compiles the model, for training or with its logits as output, and
// sets its inputs.
func (rec recording) compile(t *testing.T, train bool) (r *programtest.Runner, count int) {
	n := programtest.Network{Layers: rec.layers, Evaluate: !train}
	integers := func(name string) graph.Type { return programtest.Integers(rec.Shape(name)...) }
	for _, name := range rec.inputs {
		n.In = append(n.In, integers(name))
	}
	if train {
		var c struct {
			Smoothing float32 `json:"label_smoothing"`
		}
		rec.Config(&c)
		n.Loss, n.Targets = nn.CrossEntropy{Smoothing: c.Smoothing}, []graph.Type{integers("targets")}
	}
	r = programtest.CompileLayers(t, n)
	for i, name := range rec.inputs {
		copy(programtest.Ints(r.In(i)), rec.Ints(name))
	}
	if train {
		targets := rec.Ints("targets")
		copy(programtest.Ints(r.Feed(0)), targets)
		for _, target := range targets {
			if target >= 0 {
				count++
			}
		}
		r.Env.LossScale = 1 / float32(count)
	}
	return r, count
}

func (rec recording) compare(t *testing.T) {
	r, count := rec.compile(t, true)

	// The trained parameters are the oracle's, by name and shape.
	var params []string
	for _, p := range r.Function.Params {
		if p.Role != graph.Param {
			continue
		}
		params = append(params, p.Name)
		if shape := rec.Shape("param/" + p.Name); !slices.Equal(shape, p.Shape) {
			t.Errorf("%s is %v, want %v", p.Name, p.Shape, shape)
		}
		copy(r.Param(p.Name), rec.Floats("param/"+p.Name))
	}
	for _, name := range rec.Names() {
		if p, ok := strings.CutPrefix(name, "param/"); ok && !slices.Contains(params, p) {
			t.Errorf("the model has no parameter %s", p)
		}
	}

	logits, _ := rec.compile(t, false)
	copy(logits.Space(program.Params), r.Space(program.Params))
	logits.Forward()
	rec.Close(t, "logits", logits.Out(0), tolerance)

	var c struct {
		Adam struct {
			LR    float32
			Betas [2]float32
			Eps   float32
		}
		Steps int
	}
	rec.Config(&c)
	optimizer := nn.Adam{Beta1: c.Adam.Betas[0], Beta2: c.Adam.Betas[1], Eps: c.Adam.Eps}
	state := map[string][][]float32{}
	for _, p := range params {
		for range optimizer.Slots() {
			state[p] = append(state[p], make([]float32, len(r.Param(p))))
		}
	}
	var losses []float32
	for step := 1; step <= c.Steps; step++ {
		clear(r.Space(program.Grads))
		r.Env.Step = uint64(step)
		r.Keep()
		var sum float64
		for _, l := range r.Out(0) {
			sum += float64(l)
		}
		losses = append(losses, float32(sum/float64(count)))
		r.Backward()
		for _, p := range params {
			if step == 1 {
				rec.compareGradient(t, r, p)
			}
			optimizer.Update(nn.Update{W: r.Param(p), G: r.Grad(p), State: state[p], Step: step, LR: c.Adam.LR, Scale: 1})
		}
	}
	rec.Close(t, "losses", losses, tolerance)
	rec.Close(t, "loss", losses[:1], tolerance)
	for _, p := range params {
		name := "adam10/" + p
		got, want := withoutKeysBias(p, rec.inner, r.Param(p)), withoutKeysBias(p, rec.inner, rec.Exact(name))
		programtest.CloseTo(t, name, got, want, tolerance)
	}
}

// compareGradient compares a parameter's gradient and, if it has several uses,
// that of each, in the order of the calls.
func (rec recording) compareGradient(t *testing.T, r *programtest.Runner, p string) {
	rec.Close(t, "grad/"+p, r.Grad(p), tolerance)
	uses := r.Grads(p)
	want := 0
	for ; rec.Has(fmt.Sprintf("grad/%s/use%d", p, want)); want++ {
		if want < len(uses) {
			rec.Close(t, fmt.Sprintf("grad/%s/use%d", p, want), uses[want], tolerance)
		}
	}
	if want = max(want, 1); len(uses) != want {
		t.Errorf("%s has %d accumulators, want %d", p, len(uses), want)
	}
}

// withoutKeysBias drops the keys' part of the bias of a projection whose
// columns are qkv or kv. Its gradient is zero except for rounding, from which
// Adam makes steps of up to the rate.
func withoutKeysBias[T float32 | float64](path string, inner int, x []T) []T {
	switch {
	case strings.HasSuffix(path, "/qkv/bias"):
		return slices.Concat(x[:inner], x[2*inner:])
	case strings.HasSuffix(path, "/kv/bias"):
		return x[inner:]
	}
	return x
}
