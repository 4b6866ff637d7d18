package llama

import (
	"fmt"
	"testing"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// Whole networks against PyTorch in float64 (testdata/llama.py), whose tensors have their published
// names: logits, loss, every gradient, and ten steps of Adam. The tolerance is package
// transformer's.
func TestAgainstPyTorch(t *testing.T) {
	for _, file := range []string{"llama.json", "llama_tied.json"} {
		for _, fine := range []bool{false, true} {
			t.Run(fmt.Sprint(file, "/fine=", fine), func(t *testing.T) {
				oracle := programtest.ReadOracle(t, "testdata/"+file)
				var c struct {
					Vocab, Dim, FF, Heads, Layers, Time int
					KVHeads                             int     `json:"kv_heads"`
					HeadDim                             int     `json:"head_dim"`
					Theta                               float64 `json:"rope_theta"`
					Tied                                bool
				}
				oracle.Config(&c)
				layers := modeltest.Build(t, New, Config{
					Layers: c.Layers, Dim: c.Dim, FeedForward: c.FF, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Vocab: c.Vocab,
					SeqLen: c.Time + 2, RopeTheta: c.Theta, Tied: c.Tied, Fine: fine,
				})
				names := map[string]string{}
				for _, l := range layers {
					for _, p := range l.Params() {
						names[nn.ScopeOf(l)+"/"+p.Name] = p.Published
					}
				}
				modeltest.Recording{
					Oracle: oracle, Layers: layers, Inputs: []string{"ids"}, Tolerance: 3e-6,
					Name: func(path string) string { return names[path] },
				}.Compare(t)
			})
		}
	}
}
