package gpipe

import (
	"fmt"
	"math"
	"testing"

	"gpipebench/gpipe/plan"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

var bothLARS = []nn.LARS{{Trust: 0.1}, {Unscaled: true, Trust: 0.1, Eps: 0.5}}

// layerWise is a network with weight decay, clipping and an average, whose optimiser reads norms.
func (l lm) layerWise(t testing.TB, o nn.LARS) Pipeline {
	p := l.pipeline(t)
	p.Optimizer, p.L2, p.LR, p.EMA = o, 0.01, nn.ConstantLR(1), nn.EMA{Decay: 0.9}
	return p
}

// TestG1LARS is TestG1 and TestG1Replicas for an optimiser that reads norms of whole
// parameters, which stages share and replicas divide.
func TestG1LARS(t *testing.T) {
	l := small
	l.batch, l.steps = 13, 2
	names := []string{bothLARS[0].Name(), bothLARS[1].Name()}
	checkG1(t, append(groupsWays([]int{1, 4}, l.batch), variants("optimizer", names...)), l.batch, byGroups, func(t testing.TB, w way) outcome {
		l := l
		l.model.Fine = w.fine
		return l.train(t, w.of(l.layerWise(t, bothLARS[w.variant])))
	})
}

// blocky has tensors of several blocks.
var blocky = lm{
	model: transformer.Config{Layers: 2, Dim: 72, FeedForward: 1000, Heads: 2, Vocab: 2003, SeqLen: 5, Tied: true},
	batch: 8, ragged: true, steps: 2,
}

// TestLARSByDefinition: a step's update follows the definition, from the step's own
// gradients, clipped, with norms in float64 over whole parameters. Biases, gains and
// offsets take the schedule's rate. Frozen parameters keep their values.
func TestLARSByDefinition(t *testing.T) {
	testkit.NotRaced(t)
	norm := func(x []float32) float64 {
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	}
	const rate, decay = 0.5, 0.01
	for _, o := range bothLARS {
		for replicas, l := range map[int]lm{1: small, 2: small, 4: blocky} {
			p := l.layerWise(t, o)
			p.Replicas, p.Partitions, p.LR, p.L2 = replicas, 2, nn.ConstantLR(rate), decay
			p.ClipNorm, p.ShardUpdate = 0.25, replicas > 1
			p.Rates = []Rate{{Path: "layer*/attention", Factor: 0}, {Path: "layer*", Factor: 0.5}}
			tr := opened(t, p, InputOf(l.data(0)))
			before := byPath(tr.Weights())
			r := stepped(t, tr, l.data(0))
			if r.GradNorm <= p.ClipNorm {
				t.Fatalf("a norm of %v is not clipped", r.GradNorm)
			}
			scale := p.ClipNorm / r.GradNorm
			noDecay, factor := map[string]bool{}, map[string]float64{}
			for _, p := range tr.net.Params {
				noDecay[p.Path], factor[p.Path] = p.NoDecay, p.Rate
			}
			gradients := byPath(tr.Gradients())
			skipped, frozen := 0, 0
			for _, w := range tr.Weights() {
				g, was := gradients[w.Path], before[w.Path]
				ratio, l2 := 1.0, decay
				switch wn, gn := norm(was), norm(g)*scale; {
				case noDecay[w.Path]:
					skipped++
					l2 = 0
				case wn > 0 && gn > 0:
					ratio = o.Trust * wn / (gn + decay*wn + o.Eps)
				}
				if factor[w.Path] == 0 {
					frozen++
				}
				want := make([]float64, len(was))
				for i := range want {
					want[i] = float64(was[i]) - factor[w.Path]*rate*ratio*(scale*float64(g[i])+l2*float64(was[i]))
				}
				programtest.CloseTo(t, fmt.Sprintf("%s R=%d %s", o.Name(), replicas, w.Path), w.Data, want, 2e-6)
			}
			if skipped == 0 || frozen == 0 {
				t.Errorf("%d parameters without a ratio, %d frozen ones", skipped, frozen)
			}
		}
	}
}

// The update of LARS reads weights and gradients of what adapts once more than that of
// momentum: all of them with one group, else what a replica owns.
func TestLARSUpdateBytes(t *testing.T) {
	const width = 512 // four blocks a layer
	p := Pipeline{Loss: nn.CrossEntropy{}}
	for i := range 2 {
		p.Layers = append(p.Layers, nn.NewDense(fmt.Sprint("dense", i), nn.DenseConfig{In: width, Out: width}))
	}
	in := Input{Examples: 4, Inputs: []graph.Type{{Shape: graph.Shape{width}}}, Targets: []graph.Type{{DType: graph.I32}}}
	bytes := func(o nn.Optimizer, replicas int, divided bool) float64 {
		q := p
		q.Optimizer, q.Replicas, q.ShardUpdate = o, replicas, divided
		return must(q.Plans(in))(t).Plans[0].UpdateBytes()
	}
	for _, c := range []struct {
		replicas int
		divided  bool
	}{{1, false}, {4, false}, {4, true}} {
		more := bytes(nn.LARS{}, c.replicas, c.divided) - bytes(nn.SGD{Momentum: 0.9}, c.replicas, c.divided)
		testkit.Equal(t, more, float64(2*2*width*width*plan.FloatBytes/c.replicas), "%+v: bytes more", c)
	}
}
