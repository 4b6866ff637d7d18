package transformer

import (
	"fmt"
	"testing"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// TestTranslationAgainstPyTorch has ragged sources and targets, padded with
// random tokens, a head size of its own, one table for all three uses, and some
// logits that are clipped.
func TestTranslationAgainstPyTorch(t *testing.T) {
	for _, fine := range []bool{false, true} {
		t.Run(fmt.Sprint("fine=", fine), func(t *testing.T) {
			translationRecording(t, TieAll, fine).Compare(t)
		})
	}
}

func translationRecording(t *testing.T, tie Tie, fine bool) modeltest.Recording {
	t.Helper()
	oracle := programtest.ReadOracle(t, "testdata/translation.json")
	var c struct {
		Vocab, Dim, FF, Heads, Layers int
		HeadDim                       int     `json:"head_dim"`
		SourceTime                    int     `json:"source_time"`
		TargetTime                    int     `json:"target_time"`
		ClipLogits                    float32 `json:"clip_logits"`
	}
	oracle.Config(&c)
	layers := build(t, TranslationConfig{
		Layers: c.Layers, Dim: c.Dim, FeedForward: c.FF, Heads: c.Heads, HeadDim: c.HeadDim, SourceVocab: c.Vocab,
		SourceLen: c.SourceTime, TargetLen: c.TargetTime, ClipLogits: c.ClipLogits, Tie: tie, Fine: fine,
	})
	return recording(oracle, layers, c.Heads*c.HeadDim, "source", "source_lengths", "shifted_targets")
}

// TestTranslationTying: with fewer tied tables, each table that starts from the
// same values has the gradient of its own uses, and the logits are the same.
func TestTranslationTying(t *testing.T) {
	const shared = "embedding/source/table"
	uses := map[Tie]map[string][]int{ // of the oracle's, by parameter
		TieNone:    {shared: {0}, "embedding/target/table": {1}, "softmax/weight": {2}},
		TieSoftmax: {shared: {0}, "embedding/target/table": {1, 2}},
		TieAll:     {shared: {0, 1, 2}},
	}
	for tie, tables := range uses {
		t.Run(tie.String(), func(t *testing.T) {
			rec := translationRecording(t, tie, false)
			r, _ := rec.Compile(t, true)
			for _, p := range r.Function.Params {
				if _, table := tables[p.Name]; table {
					copy(r.Param(p.Name), rec.Floats("param/"+shared))
				} else if p.Role == graph.Param {
					copy(r.Param(p.Name), rec.Floats("param/"+p.Name))
				}
			}
			logits, _ := rec.Compile(t, false)
			copy(logits.Space(program.Params), r.Space(program.Params))
			logits.Forward()
			rec.Close(t, "logits", logits.Out(0), tolerance)

			r.Keep()
			r.Backward()
			for path, want := range tables {
				got := r.Grads(path)
				if len(got) != len(want) {
					t.Fatalf("%s has %d uses, want %d", path, len(got), len(want))
				}
				for i, use := range want {
					rec.Close(t, fmt.Sprintf("grad/%s/use%d", shared, use), got[i], tolerance)
				}
			}
		})
	}
}
