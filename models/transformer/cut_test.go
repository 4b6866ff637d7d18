package transformer

import (
	"fmt"
	"testing"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

var small = Config{
	Layers: 2, Dim: 8, FeedForward: 24, Heads: 2, Vocab: 13, SeqLen: 5,
	Dropout: 0.2, Tied: true, ClipLogits: 1.5, ScaledInit: true,
}

// TestCuts: a training step gives the same bits (losses and every use of every
// parameter) however a model is cut, coarse or fine, into stages and into
// micro-batches, and with any number of threads: a language model, and translation
// models in which the encoder's states are spread over stages, and with ties a table
// with up to three uses.
func TestCuts(t *testing.T) {
	models := map[string]func(fine bool) sample{"language": func(fine bool) sample {
		c := small
		c.Fine = fine
		return sample{
			layers:  modeltest.Build(t, LM, c),
			inputs:  []tokens{randomTokens("ids", 6, c.SeqLen, c.Vocab)},
			targets: randomTokens("targets", 6, c.SeqLen, c.Vocab),
		}
	}}
	for _, tie := range []Tie{TieNone, TieSoftmax, TieAll} {
		models[tie.String()] = func(fine bool) sample {
			c := smallTranslation
			c.Tie, c.Fine = tie, fine
			return translationSample(t, c)
		}
	}
	for name, of := range models {
		m, fine := of(false), of(true)
		want := m.trainStep(t, nil, []int{6}, 1)
		n := len(m.layers)
		for _, c := range []struct {
			name    string
			model   sample
			cuts    []int // first layers of all stages but the first
			batches []int
			threads int
		}{
			{"fine", fine, nil, []int{6}, 1},
			{"two halves", m, []int{n / 2}, []int{6}, 1},
			{"before the end", m, []int{n - 2}, []int{6}, 1},
			{"every layer", m, every(n, 1), []int{6}, 1},
			{"every sub-layer", fine, every(len(fine.layers), 1), []int{6}, 1},
			{"micro-batches", m, nil, []int{1, 3, 2}, 1},
			{"threads", m, nil, []int{6}, 2},
			{"all", fine, every(len(fine.layers), 3), []int{2, 2, 1, 1}, 3},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				want.Same(t, c.model.trainStep(t, c.cuts, c.batches, c.threads), c.name)
			})
		}
	}
}

// every returns the multiples of step below n.
func every(n, step int) (cuts []int) {
	for i := step; i < n; i += step {
		cuts = append(cuts, i)
	}
	return cuts
}

// sample is a model and one mini-batch.
type sample struct {
	layers  []nn.Layer
	inputs  []tokens
	targets tokens
}

// tokens is a tensor of integers, (examples, per) or, if per is 0, (examples).
type tokens struct {
	per  int
	data []int32
}

func randomTokens(what string, examples, per, vocab int) tokens {
	x := tokens{per: per}
	for e := range examples {
		stream := philox.NewStream(philox.KeyOf(5, what), uint64(e))
		for range per {
			x.data = append(x.data, int32(stream.Intn(vocab)))
		}
	}
	return x
}

// of returns the type of n examples, and rows the values from the first one on.
func (x tokens) of(n int) graph.Type {
	if x.per == 0 {
		return programtest.Integers(n)
	}
	return programtest.Integers(n, x.per)
}

func (x tokens) rows(first, n int) []int32 {
	per := max(x.per, 1)
	return x.data[first*per : (first+n)*per]
}

// values returns all parameters by path, tied ones once, as seed 1 initialises
// them.
func values(layers []nn.Layer) map[string][]float32 {
	all := map[string][]float32{}
	for p, path := range paths(layers) {
		all[path] = make([]float32, p.Shape.Elems())
		p.Init(philox.NewStream(philox.KeyOf(1, path), 0), p.Shape, all[path])
	}
	return all
}

// paths returns the paths of all parameters. A tied one has that of its first
// layer.
func paths(layers []nn.Layer) map[*nn.Param]string {
	all := map[*nn.Param]string{}
	for _, l := range layers {
		for _, p := range l.Params() {
			if all[p] == "" {
				all[p] = nn.ScopeOf(l) + "/" + p.Name
			}
		}
	}
	return all
}

// cutStage is a stage that a test runs by hand.
type cutStage struct {
	*programtest.Runner
	params []*nn.Param
}

// trainStep runs one training step by hand: in stages, cut before the given
// layers, and micro-batches of the given sizes.
func (m sample) trainStep(t *testing.T, cuts, batches []int, threads int) programtest.Results {
	t.Helper()
	weights, path := values(m.layers), paths(m.layers)
	total := 0
	for _, target := range m.targets.data {
		if target >= 0 {
			total++
		}
	}

	results := programtest.Results{}
	grads := map[string][]float32{} // by path and use
	eachUse := func(stages []cutStage, do func(use string, g []float32)) {
		uses := map[*nn.Param]int{}
		for _, s := range stages {
			for i, p := range s.params {
				for _, g := range s.Grads(s.Function.Params[i].Name) {
					do(fmt.Sprint("gradient of ", path[p], ", use ", uses[p]), g)
					uses[p]++
				}
			}
		}
	}
	first := 0
	for _, n := range batches {
		stages := m.compile(t, cuts, n, threads)
		for i, x := range m.inputs {
			copy(programtest.Ints(stages[0].In(i)), x.rows(first, n))
		}
		last := stages[len(stages)-1]
		copy(programtest.Ints(last.Feed(0)), m.targets.rows(first, n))
		eachUse(stages, func(use string, g []float32) { copy(g, grads[use]) })
		for k, s := range stages {
			s.Env.Example = uint64(first)
			s.Env.LossScale = 1 / float32(total)
			for i, p := range s.params {
				copy(s.Param(s.Function.Params[i].Name), weights[path[p]])
			}
			if k > 0 {
				for i := range s.Stage.In {
					copy(s.In(i), stages[k-1].Out(i))
				}
			}
			s.Keep()
		}
		for i := range n {
			rows := last.Out(0)[i*m.targets.per : (i+1)*m.targets.per]
			results[fmt.Sprint("losses of example ", first+i)] = programtest.Bits(rows)
		}
		for k := len(stages) - 1; k >= 0; k-- {
			s := stages[k]
			if k < len(stages)-1 {
				for i := range s.Stage.DOut {
					copy(s.DOut(i), stages[k+1].DIn(i))
				}
			}
			s.Backward()
		}
		eachUse(stages, func(use string, g []float32) { grads[use] = g })
		first += n
	}
	for use, g := range grads {
		results[use] = programtest.Bits(g)
	}
	return results
}

// compile compiles the stages for n examples, the last one first, since it
// determines which boundary tensors have gradients.
func (m sample) compile(t *testing.T, cuts []int, n, threads int) []cutStage {
	t.Helper()
	var in []graph.Type
	for _, x := range m.inputs {
		in = append(in, x.of(n))
	}
	var traced []*trace.Stage
	starts := append([]int{0}, cuts...)
	for k, first := range starts {
		if k+1 < len(starts) {
			traced = append(traced, trace.Layers(m.layers[first:starts[k+1]], first, nil, in, nil, true))
		} else {
			loss, targets := nn.CrossEntropy{Smoothing: 0.1}, []graph.Type{m.targets.of(n)}
			traced = append(traced, trace.Layers(m.layers[first:], first, loss, in, targets, true))
		}
		in = traced[k].Out
	}
	stages := make([]cutStage, len(traced))
	var gradOut []bool
	for k := len(traced) - 1; k >= 0; k-- {
		stages[k] = cutStage{programtest.Compile(t, traced[k].Function, gradOut, threads), traced[k].Params}
		gradOut = nil
		for _, d := range stages[k].Stage.DIn {
			gradOut = append(gradOut, d.Len > 0)
		}
	}
	return stages
}
