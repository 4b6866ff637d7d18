package gpipe

import (
	"testing"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// One test per sentence of the paper (Huang et al., GPipe, NeurIPS 2019) that the
// library must satisfy. Each comment ends with its reference. Other tests quote the sentences
// that they hold: those of packages schedule and partition, TestG1 (updates are consistent)
// and clocktest.Check (updates come at the end of a mini-batch).

// run takes one step and returns its report.
func run(t *testing.T, l lm, p Pipeline) (*Trainer, *Result) {
	t.Helper()
	tr := opened(t, p, InputOf(l.data(0)))
	r := stepped(t, tr, l.data(0))
	return tr, r
}

// "GPipe first divides every mini-batch of size N into M equal micro-batches"
// (section 2.2). Where M does not divide N, ours differ by at most one.
func TestMiniBatchesAreDividedEvenly(t *testing.T) {
	for n := 1; n < 40; n++ {
		for m := 1; m < 45; m++ {
			sizes := MicroBatchSizes(n, m)
			sum := 0
			for _, s := range sizes {
				sum += s
				if s < 1 || s < sizes[len(sizes)-1] || s > sizes[len(sizes)-1]+1 {
					t.Fatalf("N=%d M=%d: %v", n, m, sizes)
				}
			}
			if sum != n || len(sizes) != min(n, m) {
				t.Fatalf("N=%d M=%d: %v", n, m, sizes)
			}
		}
	}
}

// deep has enough layers, and little besides, for the memory formulas to show.
var deep = lm{model: transformer.Config{Layers: 16, Dim: 32, FeedForward: 64, Heads: 2, Vocab: 11, SeqLen: 16}, batch: 32}

// "In comparison, memory requirement without re-materialization and
// partitioning would be O(N x L)" (section 2.3).
func TestMemoryWithoutRematerialisation(t *testing.T) {
	residuals := func(layers, examples, micro int) float64 {
		l := deep
		l.model.Layers, l.batch = layers, examples
		p := l.pipeline(t)
		p.MicroBatches, p.Checkpoint = micro, schedule.Never
		return float64(must(p.Plans(InputOf(l.data(0))))(t).Plans[0].Bytes[Residuals])
	}
	one := residuals(8, 32, 1)
	for what, c := range map[string]struct{ ratio, least, most float64 }{
		"the layers":        {residuals(16, 32, 1) / one, 1.9, 2.1},
		"the examples":      {residuals(8, 64, 1) / one, 1.95, 2.05},
		"the micro-batches": {2 * residuals(8, 32, 2) / one, 1.9, 2.1}, // which save none
	} {
		if c.ratio < c.least || c.ratio > c.most {
			t.Errorf("twice %s: %.2f times the residuals, want about 2", what, c.ratio)
		}
	}
}

// "During the backward pass, the k-th accelerator recomputes the composite
// forward function F_k" (section 2.3): R executes what F executes.
func TestRecomputationIsTheForwardAgain(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches = 2, 3
	n := must(p.network(InputOf(small.data(0))))(t)
	for k, st := range n.ProgramsFor(3, plan.Training) {
		ops := func(p *program.Program) (s string) {
			for _, in := range p.Instrs {
				s += in.Op + " "
			}
			return s
		}
		testkit.Equal(t, ops(st.Forward), ops(st.Keep), "stage %d: F runs", k)
	}
}

// "we only need to pass activation tensors at the partition boundaries between
// accelerators" (section 2.3): per micro-batch and boundary, one tensor of its
// examples forward and its gradient backward.
func TestOnlyBoundaryTensorsTravel(t *testing.T) {
	p := deep.pipeline(t)
	p.Partitions, p.MicroBatches = 4, 8
	_, r := run(t, deep, p)
	var bytes int64
	for _, e := range r.Timeline.Events {
		if e.Kind == timeline.Transfer {
			bytes += e.Bytes
		}
	}
	c := deep.model
	testkit.Equal(t, bytes, int64(2*3*deep.batch*c.SeqLen*c.Dim*plan.FloatBytes), "bytes travelled")
}

// Table 1's model parameter memory is 12 bytes for each parameter (section 3:
// 785.8M take 8.8G): the parameter and two slots. Constant tables and the padding
// between tensors come on top.
func TestTwelveBytesAParameter(t *testing.T) {
	c := transformer.Config{Layers: 13, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024}
	l := lm{model: c, batch: 32}
	for _, optimizer := range []nn.Optimizer{nn.RMSProp{Momentum: 0.9}, nn.Adam{}} {
		a := chip()
		p := l.modelled(t, a, 1, 32)
		p.Optimizer = optimizer
		s := must(p.Simulate(Input{Examples: 32, Inputs: []graph.Type{{Shape: graph.Shape{1024}, DType: graph.I32}}, Targets: []graph.Type{{Shape: graph.Shape{1024}, DType: graph.I32}}}, Modelling{DType: graph.BF16}))(t)
		const params = 785_761_536 // Table 1: 785.8M
		if got, least := s.Devices[0].ParamBytes, int64(12*params); got < least || got > least+16<<20 {
			t.Errorf("%T: %d bytes of parameters and slots, want %d and at most 16 MiB of tables", optimizer, got, least)
		}
	}
}

// "peak activation memory requirement is reduced to O(N + L/K x N/M)" (section
// 2.3), over a whole grid: boundary and residuals of a modelled stage are one
// constant times each term.
func TestMemoryFormulaOverTheGrid(t *testing.T) {
	testkit.NotRaced(t)
	type terms struct{ boundary, residuals float64 }
	var first terms
	for _, k := range []int{2, 4} {
		for _, m := range []int{4, 8, 16} {
			for _, layers := range []int{16, 32} {
				for _, n := range []int{32, 64} {
					l := deep
					l.model.Layers, l.batch = layers, n
					p := l.modelled(t, chip(), k, m)
					p.Balance = make([]int, k) // embedding and softmax on the outer stages
					for i := range p.Balance {
						p.Balance[i] = layers / k
					}
					p.Balance[0]++
					p.Balance[k-1]++
					s := must(p.Simulate(InputOf(l.data(0)), Modelling{}))(t)
					d := s.Devices[k-1]
					// Besides the inputs of N examples: targets, and two gradients on their way.
					now := terms{
						float64(d.BoundaryBytes) / (float64(n) * (1 + 2/float64(m))),
						float64(d.ResidualBytes) / (float64(layers) / float64(k) * float64(n) / float64(m)),
					}
					if first == (terms{}) {
						first = now
					}
					if r := now.boundary / first.boundary; r < 0.95 || r > 1.05 {
						t.Errorf("K=%d M=%d L=%d N=%d: boundary %.3f of N times a constant", k, m, layers, n, r)
					}
					if r := now.residuals / first.residuals; r < 0.9 || r > 1.1 {
						t.Errorf("K=%d M=%d L=%d N=%d: residuals %.3f of L/K N/M times a constant", k, m, layers, n, r)
					}
				}
			}
		}
	}
}
