package program_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// The arithmetic contract for every op: none of the following may change a bit.

const miniBatch = 6

func forEachOp(t *testing.T, f func(t *testing.T, c opCase, want programtest.Results)) {
	for _, c := range opCases {
		for _, dt := range []graph.DType{graph.F32, graph.BF16} {
			c.storage = program.Of(dt)
			t.Run(fmt.Sprint(c.name, "/", dt), func(t *testing.T) {
				want := programtest.Results{}
				want.Step(c.runner(t, 0, miniBatch, 1), 0)
				f(t, c, want)
			})
		}
	}
}

func TestSplitBatch(t *testing.T) {
	testkit.NotRaced(t)
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		if c.whole {
			return
		}
		for _, sizes := range [][]int{{3, 3}, {1, 4, 1}, {1, 1, 1, 1, 1, 1}} {
			got := programtest.Results{}
			var grads []float32
			from := 0
			for _, n := range sizes {
				r := c.runner(t, from, from+n, 1)
				copy(r.Space(program.Grads), grads) // micro-batches add to the same accumulators
				got.Step(r, from)
				grads = r.Space(program.Grads)
				from += n
			}
			want.Same(t, got, fmt.Sprint("micro-batches of ", sizes))
		}
	})
}

func TestThreads(t *testing.T) {
	counts := []int{2, 3, 5}
	if testkit.Race { // threads do the same beside each other, however many they are
		counts = counts[1:2]
	}
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		for _, threads := range counts {
			got := programtest.Results{}
			got.Step(c.runner(t, 0, miniBatch, threads), 0)
			want.Same(t, got, fmt.Sprint(threads, " threads"))
		}
	})
}

func TestRunAgain(t *testing.T) {
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		r := c.runner(t, 0, miniBatch, 1)
		for range 2 {
			clear(r.Space(program.Grads))
			got := programtest.Results{}
			got.Step(r, 0)
			want.Same(t, got, "again")
		}
	})
}

// TestFresh: neither does starting products in their accumulators from zero, whatever these contain,
// with the backward whole and in two.
func TestFresh(t *testing.T) {
	started := 0
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		for _, threads := range []int{1, 3} {
			r := c.runner(t, 0, miniBatch, threads)
			grads := r.Space(program.Grads)
			for i := range grads {
				grads[i] = float32(math.NaN())
			}
			started += len(grads)
			for _, o := range r.Stage.Clear {
				clear(grads[o.Off:o.End()])
				started -= o.Len
			}
			r.Env.Fresh = true
			got := programtest.Results{}
			got.Step(r, 0)
			want.Same(t, got, fmt.Sprint("fresh, ", threads, " threads"))
		}
	})
	if started == 0 {
		t.Error("no accumulator is started: want those of products")
	}
}

// TestForwardIsKeep: storing residuals changes no value, and neither does
// running Forward first, as re-materialisation does; a second run adds nothing
// to the tallies.
func TestForwardIsKeep(t *testing.T) {
	testkit.NotRaced(t)
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		r := c.runner(t, 0, miniBatch, 1)
		forward, keep := programtest.Results{}, programtest.Results{}
		r.Forward()
		forward.Outputs(r, 0)
		r.Env.Again = true
		r.Keep()
		keep.Outputs(r, 0)
		keep.Same(t, forward, "Forward against Keep")
		got := programtest.Results{}
		got.Step(r, 0)
		want.Same(t, got, "recomputed")
	})
}

// TestRoom: neither does placing values where larger tensors have theirs, with
// no more scratch, nor with the backward in two; and no program or space spans more than its
// counterpart.
func TestRoom(t *testing.T) {
	testkit.NotRaced(t)
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		for larger := miniBatch; larger <= 64; larger = larger*3/2 + 1 {
			for threads, split := range map[int]bool{1: false, 3: true} {
				b := c.traced(larger)
				b.Function.Split = split
				room := c.compile(t, b, threads).Stage
				b = c.traced(miniBatch)
				b.Function.Room, b.Function.Split = room, split
				r := c.bind(t, b, 0, threads)
				most := programsOf(room)
				for i, p := range programsOf(r.Stage) {
					if p != nil && p.Span > most[i].Span {
						t.Errorf("%d threads: %s spans %d floats, for %d examples %d", threads, p.Name, p.Span, larger, most[i].Span)
					}
				}
				for _, s := range []program.Space{program.Residual, program.Lasting, program.Between} {
					if r.Stage.Span[s] > room.Span[s] {
						t.Errorf("%d floats of %s, for %d examples %d", r.Stage.Span[s], s, larger, room.Span[s])
					}
				}
				got := programtest.Results{}
				if split {
					got.SplitStep(r, 0)
				} else {
					got.Step(r, 0)
				}
				want.Same(t, got, fmt.Sprint("in the places of ", larger))
			}
		}
	})
}

func programsOf(s *program.Stage) []*program.Program {
	return []*program.Program{s.Forward, s.Keep, s.Backward, s.Input, s.Weights}
}

// TestEvaluate: the programs of evaluation compute the same bits, although they
// have other fusions since there is no backward.
func TestEvaluate(t *testing.T) {
	forEachOp(t, func(t *testing.T, c opCase, _ programtest.Results) {
		r := c.runner(t, 0, miniBatch, 1)
		want, got := programtest.Results{}, programtest.Results{}
		r.Forward()
		want.Outputs(r, 0)
		e := programtest.CompileEvaluate(t, c.traced(miniBatch).Function, 2, c.storage)
		e.Env = r.Env
		for _, s := range []program.Space{program.Params, program.In} {
			copy(e.Space(s), r.Space(s))
		}
		e.Forward()
		got.Outputs(e, 0)
		want.Same(t, got, "evaluation")
	})
}

// TestWorkspaceIsWritten: programs read nothing of the workspace that they did
// not write. Other tests poison it; this one starts from zeros.
func TestWorkspaceIsWritten(t *testing.T) {
	testkit.NotRaced(t)
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		r := c.runner(t, 0, miniBatch, 1)
		r.Options.Poison = false
		clear(r.Space(program.Workspace))
		clear(r.Space(program.Residual))
		got := programtest.Results{}
		got.Step(r, 0)
		want.Same(t, got, "without poison")
	})
}

// TestFusion: a fused op has the bits of the separate ops. Ops of different
// pipeline layers are not fused, so the reference is the same function with one
// layer per op. There is one exception, see TestLayerNormGradPlusAdd.
func TestFusion(t *testing.T) {
	fused := map[string]bool{}
	forEachOp(t, func(t *testing.T, c opCase, want programtest.Results) {
		if c.storage.Rounded {
			return // nothing is fused
		}
		b := c.traced(miniBatch)
		for i, call := range b.Calls {
			call.Layer = i
		}
		b.Layer = len(b.Calls)
		r := c.bind(t, b, 0, 1)
		for _, in := range r.Stage.Forward.Instrs {
			if strings.Contains(in.Op, "+") {
				t.Errorf("%s is fused across layers", in.Op)
			}
		}
		if !c.fma {
			got := programtest.Results{}
			got.Step(r, 0)
			want.Same(t, got, "apart")
		}

		together := c.runner(t, 0, miniBatch, 1).Stage
		for _, p := range []*program.Program{together.Forward, together.Backward} {
			for _, in := range p.Instrs {
				fused[in.Op] = true
			}
		}
	})
	for _, op := range []string{"matmul+bias", "matmul+relu", "matmul-bt+bias", "dropout+add", "layer-norm-grad+add", "batch-norm+add", "batch-norm+relu", "batch-norm-grad+add", "add+relu"} {
		if !fused[op] {
			t.Errorf("no case has %s", op)
		}
	}
}

// TestLayerNormGradPlusAdd is the exception: fused, the gradient's last product
// and the addition are one multiply-add. Cuts do not affect it: whether a
// gradient is added in the norm's layer does not depend on where a network is
// cut.
func TestLayerNormGradPlusAdd(t *testing.T) {
	norm := func(residual bool) *programtest.Runner {
		return opCase{trace: func(b *builder) []*graph.Node {
			x := b.x("x", 19)
			y := b.LayerNorm(x, b.w("gamma", 19), b.w("beta", 19), 1e-5)
			if residual {
				return []*graph.Node{y, x}
			}
			return one(y)
		}}.runner(t, 0, miniBatch, 1)
	}
	alone, both := norm(false), norm(true)
	for _, r := range []*programtest.Runner{alone, both} {
		r.Keep()
		r.Backward()
	}
	for i, d := range alone.DIn(0) {
		want := d + both.DOut(1)[i]
		ulp := 0x1p-23 * (math.Abs(float64(d)) + math.Abs(float64(want)))
		if got := both.DIn(0)[i]; !(math.Abs(float64(got-want)) <= ulp) {
			t.Errorf("element %d: fused %v, want %v", i, got, want)
		}
	}
	testkit.Equal(t, both.Stage.Backward.Instrs[len(both.Stage.Backward.Instrs)-1].Op, "layer-norm-grad+add", "the last instruction")
}
