package program_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// split is the runner of a case whose backward is also compiled in two.
func (c opCase) split(t testing.TB, from, to, threads int) *programtest.Runner {
	t.Helper()
	b := c.traced(to - from)
	b.Function.Split = true
	return c.bind(t, b, from, threads)
}

// TestSplitBackward: Input and then Weights have the bits of Backward, with any number of
// threads, after a recomputation, and when they run again; so has the Backward that is
// compiled with them. Between the two, nothing that is free after Input is left as it was.
// On a first stage, whose inputs have no gradient, it is the same, and Weights runs the same.
func TestSplitBackward(t *testing.T) {
	testkit.NotRaced(t)
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		first, later := c, opsOf(c.split(t, 0, miniBatch, 1).Stage.Weights)
		first.first = true
		whole, halves := programtest.Results{}, programtest.Results{}
		whole.Step(first.runner(t, 0, miniBatch, 1), 0)
		r := first.split(t, 0, miniBatch, 1)
		halves.SplitStep(r, 0)
		whole.Same(t, halves, "first stage")
		testkit.EqualAll(t, opsOf(r.Stage.Weights), later, "Weights of a first stage runs")
		for _, threads := range []int{1, 3} {
			r := c.split(t, 0, miniBatch, threads)
			got := programtest.Results{}
			got.SplitStep(r, 0)
			want.Same(t, got, fmt.Sprint("in two, ", threads, " threads"))

			whole := programtest.Results{}
			whole.Step(c.split(t, 0, miniBatch, threads), 0)
			want.Same(t, whole, "Backward of the same stage")

			r = c.split(t, 0, miniBatch, threads)
			r.Forward()
			r.Env.Again = true
			r.KeepAgain()
			again := programtest.Results{}
			r.Input()
			r.Weights()
			again.Gradients(r, 0)
			for name := range want {
				if strings.HasPrefix(name, "out ") {
					again[name] = want[name]
				}
			}
			want.Same(t, again, "recomputed")
		}
	})
}

// TestSplitInFlight: W of all micro-batches after the last I, in ascending order, with one
// set of accumulators; in descending order the sums are other ones.
func TestSplitInFlight(t *testing.T) {
	testkit.NotRaced(t)
	other := 0
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		if c.whole {
			return
		}
		run := func(ascending bool) programtest.Results {
			var parts []*programtest.Runner
			got := programtest.Results{}
			for from := 0; from < miniBatch; from += 2 {
				r := c.split(t, from, from+2, 1)
				if from > 0 {
					r.ShareGrads(parts[0])
				}
				r.Keep()
				got.Outputs(r, from)
				r.Input()
				parts = append(parts, r)
			}
			order := []int{0, 1, 2}
			if !ascending {
				slices.Reverse(order)
			}
			for _, i := range order {
				parts[i].Weights()
			}
			for i, r := range parts {
				got.Gradients(r, 2*i)
			}
			return got
		}
		want.Same(t, run(true), "ascending")
		for name, bits := range run(false) {
			if !slices.Equal(bits, want[name]) {
				other++
				break
			}
		}
	})
	if other < 10 {
		t.Errorf("descending, %d cases have other sums: want 10 or more", other)
	}
}

func opsOf(p *program.Program) (ops []string) {
	for _, in := range p.Instrs {
		ops = append(ops, fmt.Sprint(in.Op, " of layer ", in.Layer))
	}
	return ops
}

// TestSplitSpaces: the instructions of Backward are divided between Input and Weights,
// which has copies besides. Each uses the spaces that it may and no others, up to
// exactly what is planned, and together they take no more for residuals than Backward,
// but for the padding.
func TestSplitSpaces(t *testing.T) {
	testkit.NotRaced(t)
	inputs := []program.Space{program.Params, program.Grads, program.In, program.DOut, program.DIn, program.Residual, program.Lasting, program.Between, program.Statistics, program.Workspace}
	weights := []program.Space{program.Params, program.Grads, program.Lasting, program.Between, program.Workspace}
	forEachOp(t, func(t *testing.T, c opCase, _ programtest.Results) {
		r := c.split(t, 0, miniBatch, 2)
		whole := c.runner(t, 0, miniBatch, 2)
		var used [program.Spaces]int
		for _, p := range []struct {
			*program.Program
			run func()
			may []program.Space
		}{{r.Stage.Keep, r.Keep, nil}, {r.Stage.Input, r.Input, inputs}, {r.Stage.Weights, r.Weights, weights}} {
			var high [program.Spaces]int
			r.Options.High = &high
			p.run()
			testkit.Equal(t, high[program.Workspace], p.Span, "%s: workspace up to", p.Name)
			for s, end := range high {
				used[s] = max(used[s], end)
				if p.may != nil && !slices.Contains(p.may, program.Space(s)) && end > 0 {
					t.Errorf("%s uses the space %s", p.Name, program.Space(s))
				}
			}
		}
		for _, s := range []program.Space{program.Residual, program.Lasting, program.Between, program.DIn, program.Grads} {
			testkit.Equal(t, used[s], r.Stage.Span[s], "%s: up to", s)
		}
		saved := func(st *program.Stage, spaces ...program.Space) (floats int) {
			for _, s := range spaces {
				for _, n := range st.SavedIn[s] {
					floats += n
				}
			}
			return floats
		}
		testkit.Equal(t, saved(r.Stage, program.Residual, program.Lasting), saved(whole.Stage, program.Residual), "floats of residuals")
		if got := saved(whole.Stage, program.Lasting, program.Between); got != 0 || whole.Stage.Span[program.Lasting]+whole.Stage.Span[program.Between] != 0 || whole.Stage.Weights != nil {
			t.Error("an unsplit backward has something for Weights")
		}

		parts := slices.Concat(opsOf(r.Stage.Input), opsOf(r.Stage.Weights))
		for _, op := range opsOf(whole.Stage.Backward) {
			i := slices.Index(parts, op)
			if i < 0 {
				t.Fatalf("%s is in none of the two", op)
			}
			parts = slices.Delete(parts, i, i+1)
		}
		for _, op := range parts {
			if !strings.HasPrefix(op, "copy") {
				t.Errorf("%s is in the two programs and not in Backward", op)
			}
		}
		if before, _ := r.Stage.Weights.Meetings(); len(before) > 0 {
			t.Error("Weights meets other replicas")
		}
	})
}

// What Weights runs: products, and sums that read what products read. What is kept for it
// of a Transformer layer in bfloat16 is what Table 1 of arXiv 2401.10241 has for M_W: 32
// bytes for each element of the layer's input (s b h): 14 of products' inputs and 18 of
// their outputs' gradients. Its M_B, 34 + 5 a s / h, has the
// masks of dropouts and the scores of attention, which are not stored here.
func TestSplitTransformerLayer(t *testing.T) {
	const time, headDim, examples = 8, 16, 4
	dim := 2 * headDim
	c := opCase{storage: program.BF16, trace: func(b *builder) []*graph.Node {
		return one(transformerLayer(b, time, headDim, 4*dim))
	}}
	st := c.split(t, 0, examples, 1).Stage
	want := []string{"matmul-at", "column-sum", "matmul-at", "column-sum", "matmul-at", "column-sum", "matmul-at", "column-sum"}
	var ops []string
	for _, in := range st.Weights.Instrs {
		ops = append(ops, in.Op)
	}
	slices.Sort(ops)
	slices.Sort(want)
	testkit.EqualAll(t, ops, want, "Weights runs")
	sbh := time * examples * dim
	for space, want := range map[program.Space]int{program.Lasting: 14, program.Between: 18} {
		if got := 4 * st.Span[space]; got != want*sbh {
			t.Errorf("%d bytes of %s, %.2f for each element: want %d", got, space, float64(got)/float64(sbh), want)
		}
	}
	if residuals := 4 * (st.Span[program.Residual] + st.Span[program.Lasting]); residuals >= 34*sbh {
		t.Errorf("%d bytes of residuals, %.2f for each element: want less than 34", residuals, float64(residuals)/float64(sbh))
	}
}

// TestSplitRefuses: a kernel that computes gradients of a parameter and of a value at once
// belongs to neither program.
func TestSplitRefuses(t *testing.T) {
	var err error
	func() {
		defer func() { err, _ = recover().(error) }()
		opCase{whole: true, trace: func(b *builder) []*graph.Node {
			return one(b.LayerNorm(b.x("x", 2, 19), b.w("gamma", 19), b.common("beta", 19), 1e-5))
		}}.split(t, 0, miniBatch, 1)
	}()
	var misuse *graph.Misuse
	if !errors.As(err, &misuse) || !strings.Contains(misuse.Wrong, "layer-norm-param-grad computes gradients of parameters and of") {
		t.Errorf("refused with %v", err)
	}
}
