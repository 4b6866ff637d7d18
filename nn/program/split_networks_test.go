package program_test

import (
	"fmt"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// TestSplitNetworks: three micro-batches of whole networks, W of each after the I of the
// two after it, with the residuals kept or recomputed: losses, gradients of all uses of all
// parameters and tallies have the bits of the whole backward function.
func TestSplitNetworks(t *testing.T) {
	testkit.NotRaced(t)
	const micro, size = 3, 2
	made := layersOf(t)
	ids := programtest.Integers(size, 5)
	for _, c := range []struct {
		name    string
		network programtest.Network
		highest []int32 // of each input, then of the targets; 0: an image
	}{
		{"transformer, tied", programtest.Network{
			Layers: made(transformer.LM(transformer.Config{Layers: 2, Dim: 8, FeedForward: 24, Heads: 2, Vocab: 13, SeqLen: 5, Dropout: 0.2, Tied: true})),
			Loss:   nn.CrossEntropy{Smoothing: 0.1}, In: []graph.Type{ids}, Targets: []graph.Type{ids},
		}, []int32{12, 12}},
		{"translation, one table", programtest.Network{
			Layers: made(transformer.Translation(transformer.TranslationConfig{
				Layers: 2, Dim: 8, FeedForward: 24, Heads: 2, SourceVocab: 13, SourceLen: 5, TargetLen: 5, Dropout: 0.2, Tie: transformer.TieAll,
			})),
			Loss: nn.CrossEntropy{Smoothing: 0.1}, In: []graph.Type{ids, programtest.Integers(size), ids}, Targets: []graph.Type{ids},
		}, []int32{12, 5, 12, 12}},
		{"resnet", imageNetworks(t)["resnet"], []int32{0, 4}},
		{"amoebanet", imageNetworks(t)["amoebanet"], []int32{0, 4}},
	} {
		for _, dt := range []graph.DType{graph.F32, graph.BF16} {
			t.Run(fmt.Sprint(c.name, "/", dt), func(t *testing.T) {
				run := func(split, again, first bool) programtest.Results {
					n := c.network
					n.Storage, n.Split, n.First = program.Of(dt), split, first
					got := programtest.Results{}
					var parts []*programtest.Runner
					for m := range micro {
						r := programtest.CompileLayers(t, n)
						fillBatch(r, m, c.highest)
						r.Env.Example, r.Env.LossScale = uint64(m*size), 1.0/(micro*size)
						if m > 0 {
							r.ShareGrads(parts[0])
						}
						parts = append(parts, r)
						if again {
							r.Forward()
							r.Env.Again = true
						}
						r.Keep()
						got.Outputs(r, m*size)
						if !split {
							r.Backward()
							continue
						}
						r.Input()
						if m >= 2 {
							parts[m-2].Weights()
						}
					}
					if split {
						parts[1].Weights()
						parts[2].Weights()
					}
					for m, r := range parts {
						got.Gradients(r, m*size)
					}
					return got
				}
				for _, first := range []bool{false, true} {
					want := run(false, false, first)
					if len(want) < 10 {
						t.Fatalf("%d results", len(want))
					}
					want.Same(t, run(true, false, first), "kept")
					want.Same(t, run(true, true, first), "recomputed")
				}
			})
		}
	}
}

// fillBatch fills the inputs and targets of micro-batch m with numbers: integers are from
// 1 to the highest of each.
func fillBatch(r *programtest.Runner, m int, highest []int32) {
	for i, at := range slices.Concat(r.Stage.In, r.Stage.Feeds) {
		stream := philox.NewStream(philox.KeyOf(5, fmt.Sprint(i)), uint64(m))
		x := make([]float32, at.Shape.Elems())
		for j := range x {
			if highest[i] == 0 {
				x[j] = float32(normal(stream))
			} else {
				programtest.Ints(x)[j] = 1 + int32(stream.Intn(int(highest[i])))
			}
		}
		at.Fill(r.Space(program.In), x)
	}
}
