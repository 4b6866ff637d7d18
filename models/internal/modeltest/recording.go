package modeltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// Recording is a model with PyTorch's results: logits, loss, every gradient, and ten steps of Adam.
type Recording struct {
	*programtest.Oracle
	Layers    []nn.Layer
	Inputs    []string // names of the input tensors, all of integers
	Tolerance float64  // in units of a tensor's largest magnitude
	// Name is the name of a parameter in the file; nil: its path.
	Name func(path string) string
	// LeftOut are the elements of a parameter whose gradient is zero except for rounding, from which
	// Adam makes steps of up to the rate; nil: none of any.
	LeftOut func(path string) (from, to int)
}

func (rec Recording) name(path string) string {
	if rec.Name == nil {
		return path
	}
	return rec.Name(path)
}

// Compile compiles the model, for training or with its logits as output, and
// sets its inputs.
func (rec Recording) Compile(t *testing.T, train bool) (r *programtest.Runner, count int) {
	n := programtest.Network{Layers: rec.Layers, Evaluate: !train}
	integers := func(name string) graph.Type { return programtest.Integers(rec.Shape(name)...) }
	for _, name := range rec.Inputs {
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
	for i, name := range rec.Inputs {
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

// Compare compares all that the recording has.
func (rec Recording) Compare(t *testing.T) {
	r, count := rec.Compile(t, true)

	// The trained parameters are the oracle's, by name and shape.
	var params, names []string
	for _, p := range r.Function.Params {
		if p.Role != graph.Param {
			continue
		}
		params, names = append(params, p.Name), append(names, rec.name(p.Name))
		testkit.EqualAll(t, p.Shape, rec.Shape("param/"+rec.name(p.Name)), "%s", p.Name)
		copy(r.Param(p.Name), rec.Floats("param/"+rec.name(p.Name)))
	}
	for _, name := range rec.Names() {
		if p, ok := strings.CutPrefix(name, "param/"); ok && !slices.Contains(names, p) {
			t.Errorf("the model has no parameter %s", p)
		}
	}

	logits, _ := rec.Compile(t, false)
	copy(logits.Space(program.Params), r.Space(program.Params))
	logits.Forward()
	rec.Close(t, "logits", logits.Out(0), rec.Tolerance)

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
	rec.Close(t, "losses", losses, rec.Tolerance)
	rec.Close(t, "loss", losses[:1], rec.Tolerance)
	for _, p := range params {
		name, got := "adam10/"+rec.name(p), r.Param(p)
		want := rec.Exact(name)
		if rec.LeftOut != nil {
			from, to := rec.LeftOut(p)
			got, want = slices.Concat(got[:from], got[to:]), slices.Concat(want[:from], want[to:])
		}
		programtest.CloseTo(t, name, got, want, rec.Tolerance)
	}
}

// compareGradient compares a parameter's gradient and, if it has several uses,
// that of each, in the order of the calls.
func (rec Recording) compareGradient(t *testing.T, r *programtest.Runner, p string) {
	name := "grad/" + rec.name(p)
	rec.Close(t, name, r.Grad(p), rec.Tolerance)
	uses := r.Grads(p)
	want := 0
	for ; rec.Has(fmt.Sprintf("%s/use%d", name, want)); want++ {
		if want < len(uses) {
			rec.Close(t, fmt.Sprintf("%s/use%d", name, want), uses[want], rec.Tolerance)
		}
	}
	if want = max(want, 1); len(uses) != want {
		t.Errorf("%s has %d accumulators, want %d", p, len(uses), want)
	}
}
