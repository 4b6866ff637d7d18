package nn_test

import (
	"fmt"
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// TestEmbedding: table[id]*sqrt(dim) plus the sinusoids, and its gradient, with
// an id that occurs twice.
func TestEmbedding(t *testing.T) {
	const vocab, dim, time = 5, 6, 3
	r := programtest.CompileLayers(t, programtest.Network{
		Layers: []nn.Layer{nn.Sequential("embedding", nn.NewEmbedding("", nn.EmbeddingConfig{Vocab: vocab, Dim: dim, SeqLen: 4}))},
		In:     one(programtest.Integers(2, time)),
	})
	ids := []int32{4, 0, 4, 2, 2, 1}
	copy(programtest.Ints(r.In(0)), ids)
	fill(r.DOut(0), "dout")
	r.Keep()
	r.Backward()

	table := r.Param("embedding/table")
	want, grad := make([]float64, len(r.Out(0))), make([]float64, len(table))
	for i := range want {
		row, column := i/dim, i%dim
		pos := float64(row % time)
		wave := math.Sin(pos / math.Pow(10000, float64(column)/dim))
		if column%2 == 1 {
			wave = math.Cos(pos / math.Pow(10000, float64(column-1)/dim))
		}
		at := int(ids[row])*dim + column
		want[i] = float64(table[at])*math.Sqrt(dim) + wave
		grad[at] += math.Sqrt(dim) * float64(r.DOut(0)[i])
	}
	programtest.CloseTo(t, "y", r.Out(0), want, oracleTolerance)
	programtest.CloseTo(t, "dtable", r.Grad("embedding/table"), grad, oracleTolerance)
	if uses := r.Grads("embedding/positions"); len(uses) != 0 {
		t.Error("the positions have a gradient")
	}
	if len(r.DIn(0)) != 0 {
		t.Error("the ids have a gradient")
	}
}

// TestTiedEmbeddings: two embeddings of one table share the pointer, so that it
// counts once.
func TestTiedEmbeddings(t *testing.T) {
	source := nn.NewEmbedding("source", nn.EmbeddingConfig{Vocab: 5, Dim: 4, SeqLen: 3})
	target := nn.NewEmbedding("target", nn.EmbeddingConfig{Vocab: 5, Dim: 4, SeqLen: 2, Tied: source.Table})
	if target.Table != source.Table || target.Params()[0] != source.Table {
		t.Fatal("the table was copied")
	}
	layers := []nn.Layer{nn.Sequential("embedding", source, target)}
	if got := nn.CountParams(layers); got != 20 {
		t.Errorf("%d parameters, want 20", got)
	}
	for want, c := range map[string]nn.EmbeddingConfig{
		`embedding "e": tied to source/table of shape (5,4), want (4,5)`: {Vocab: 4, Dim: 5, SeqLen: 3, Tied: source.Table},
		`embedding "e": Init of a tied table`:                            {Vocab: 5, Dim: 4, SeqLen: 3, Tied: source.Table, Init: nn.Ones()},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "nn: "+want {
					t.Errorf("panic %v, want nn: %s", got, want)
				}
			}()
			nn.NewEmbedding("e", c)
		}()
	}
}
