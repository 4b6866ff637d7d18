package program_test

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// A second run in a step reads the statistics over replicas that the first one stored: it
// computes no others, counts nothing and has the same results.
func TestAgain(t *testing.T) {
	for _, wide := range []bool{true, false} {
		b := programtest.NewTrace()
		b.OverReplicas = wide
		x := b.In("x", graph.F32, 3, 2, 19)
		y, tally := b.BatchNorm(b.GELU(x), b.Param("gamma", 19), b.Param("beta", 19), 1e-3, false)
		b.Function.Out, b.Function.Tallies = []*graph.Node{y}, []*graph.Node{tally}
		r := programtest.Compile(t, b.Function, []bool{true}, 2)
		if same := r.Stage.Keep.Again() == r.Stage.Keep; same == wide {
			t.Errorf("over replicas %v, the same program %v", wide, same)
		}
		if !wide {
			continue
		}
		for i := range r.In(0) {
			r.In(0)[i] = float32(i*i%23) - 9
		}
		for i := range r.Param("gamma") {
			r.Param("gamma")[i], r.Param("beta")[i] = 1, float32(i)
		}
		r.Forward()
		want, counted := slices.Clone(r.Out(0)), slices.Clone(r.Tally(0))
		clear(r.Out(0))
		r.KeepAgain()
		if !slices.Equal(r.Out(0), want) || !slices.Equal(r.Tally(0), counted) || counted[0] != 6 {
			t.Errorf("again: another result, or tally %v, want %v", r.Tally(0), counted)
		}
		var ops []string
		for _, in := range r.Stage.Keep.Again().Instrs {
			ops = append(ops, in.Op)
		}
		testkit.EqualAll(t, ops, []string{"gelu", "batch-norm"}, "again runs")
		if before, bytes := r.Stage.Forward.Meetings(); len(before) != 1 || bytes[0] != 3*19*8 || len(before[0].Instrs) != 4 {
			t.Errorf("%d meetings of %v bytes: want one of %d, after 4 operations", len(before), bytes, 3*19*8)
		}
	}
}
