package transformer

import (
	"fmt"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
)

var small = Config{
	Layers: 2, Dim: 8, FeedForward: 24, Heads: 2, Vocab: 13, SeqLen: 5,
	Dropout: 0.2, Tied: true, ClipLogits: 1.5, ScaledInit: true,
}

// values are all parameters of a model as seed 1 initialises them, by path.
func values(t *testing.T, c Config) map[string][]float32 {
	t.Helper()
	layers, err := LM(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float32{}
	for _, l := range layers {
		for _, p := range l.Params() {
			path := l.Name() + "/" + p.Name
			all[path] = make([]float32, p.Shape.Elems())
			p.Init(philox.NewStream(philox.KeyOf(1, path), 0), p.Shape, all[path])
		}
	}
	return all
}

// TestCuts: however a model is cut, coarse or fine, into stages and into
// micro-batches, and on however many threads, a training step gives the same
// bits: losses and every use of every parameter.
func TestCuts(t *testing.T) {
	want := trainStep(t, small, nil, []int{6}, 1)
	fine := small
	fine.Fine = true
	for _, c := range []struct {
		name    string
		config  Config
		cuts    []int // first layers of the stages but the first
		batches []int
		threads int
	}{
		{"fine", fine, nil, []int{6}, 1},
		{"two stages", small, []int{2}, []int{6}, 1},
		{"every layer", small, []int{1, 2, 3}, []int{6}, 1},
		{"every half", fine, []int{1, 2, 3, 4, 5}, []int{6}, 1},
		{"micro-batches", small, nil, []int{1, 3, 2}, 1},
		{"threads", small, nil, []int{6}, 2},
		{"all", fine, []int{2, 3}, []int{2, 2, 1, 1}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			want.Same(t, trainStep(t, c.config, c.cuts, c.batches, c.threads), c.name)
		})
	}
}

// trainStep runs one training step of stages by hand.
func trainStep(t *testing.T, c Config, cuts, batches []int, threads int) programtest.Results {
	t.Helper()
	layers, err := LM(c)
	if err != nil {
		t.Fatal(err)
	}
	weights := values(t, c)
	weights["softmax/table"] = weights["embedding/table"] // tied, in a stage without the embedding

	total := 0
	for _, n := range batches {
		total += n
	}
	results := programtest.Results{}
	grads := map[string][]float32{}
	from := 0
	for _, n := range batches {
		stages := compileStages(t, layers, cuts, n, threads, c.SeqLen)
		flow := func(what string, index int) (x []int32) {
			for e := range n {
				stream := philox.NewStream(philox.KeyOf(5, what), uint64(from+e))
				for range c.SeqLen {
					x = append(x, int32(stream.Intn(c.Vocab)))
				}
			}
			return x
		}
		copy(programtest.Ints(stages[0].In(0)), flow("ids", from))
		last := stages[len(stages)-1]
		copy(programtest.Ints(last.Feed(0)), flow("targets", from))
		for k, s := range stages {
			s.Env.Example = uint64(from)
			s.Env.LossScale = 1 / float32(total*c.SeqLen)
			for _, p := range s.Function.Params {
				copy(s.Param(p.Name), weights[p.Name])
				for u, use := range s.Grads(p.Name) {
					copy(use, grads[useName(p.Name, u)])
				}
			}
			if k > 0 {
				for i := range s.Stage.In {
					copy(s.In(i), stages[k-1].Out(i))
				}
			}
			s.Keep()
		}
		for i := range n {
			rows := last.Out(0)[i*c.SeqLen : (i+1)*c.SeqLen]
			results[fmt.Sprint("losses of example ", from+i)] = programtest.Bits(rows)
		}
		for k := len(stages) - 1; k >= 0; k-- {
			s := stages[k]
			if k < len(stages)-1 {
				for i := range s.Stage.DOut {
					copy(s.DOut(i), stages[k+1].DIn(i))
				}
			}
			s.Backward()
			for _, p := range s.Function.Params {
				for u, use := range s.Grads(p.Name) {
					grads[useName(p.Name, u)] = use
				}
			}
		}
		from += n
	}
	for name, g := range grads {
		results["gradient of "+name] = programtest.Bits(g)
	}
	return results
}

// useName tells the uses of the tied table apart in the same way whether or not
// one stage has both.
func useName(param string, use int) string {
	if param == "softmax/table" || param == "embedding/table" && use == 1 {
		return "table, the softmax's use"
	}
	return param
}

func compileStages(t *testing.T, layers []nn.Layer, cuts []int, n, threads, time int) []*programtest.Runner {
	t.Helper()
	var stages []*programtest.Runner
	tokens := []graph.Type{programtest.Integers(n, time)}
	in := tokens
	starts := append([]int{0}, cuts...)
	for k, first := range starts {
		end := len(layers)
		var loss nn.Loss = nn.CrossEntropy{Smoothing: 0.1}
		targets := tokens
		if k+1 < len(starts) {
			end, loss, targets = starts[k+1], nil, nil
		}
		s := nn.TraceStage(layers[first:end], first, loss, in, targets, true)
		gradOut := make([]bool, len(s.Out))
		for i := range gradOut {
			gradOut[i] = loss == nil
		}
		stages = append(stages, programtest.Compile(t, s.Function, gradOut, threads))
		in = s.Out
	}
	return stages
}
