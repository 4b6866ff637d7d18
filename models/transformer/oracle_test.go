package transformer

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// Whole models against PyTorch in float64 (testdata/*.py): logits, loss, every
// gradient, and ten steps of Adam.
//
// The tolerance is in units of a tensor's largest magnitude. PyTorch's own run
// in float32 is off by at most 1.1e-6 (lm.py and translation.py --float32),
// ours by 1.5e-6; a kernel with another order of summation may need a little
// more. Adam makes a whole step of the smallest gradient, so weights would be
// off by 1e-3 and more if one gradient had the wrong sign.
const tolerance = 3e-6

func TestAgainstPyTorch(t *testing.T) {
	for _, file := range []string{"lm.json", "lm_tied.json", "lm_norm.json"} {
		for _, fine := range []bool{false, true} {
			t.Run(fmt.Sprint(file, "/fine=", fine), func(t *testing.T) { lmRecording(t, file, fine).Compare(t) })
		}
	}
}

func lmRecording(t *testing.T, file string, fine bool) modeltest.Recording {
	oracle := programtest.ReadOracle(t, "testdata/"+file)
	var c struct {
		Vocab, Dim, FF, Heads, Layers, Time int
		Tied                                bool
		FinalNorm                           bool `json:"final_norm"`
	}
	oracle.Config(&c)
	layers := modeltest.Build(t, LM, Config{
		Layers: c.Layers, Dim: c.Dim, FeedForward: c.FF, Heads: c.Heads, Vocab: c.Vocab, SeqLen: c.Time, Tied: c.Tied, FinalNorm: c.FinalNorm, Fine: fine,
	})
	return recording(oracle, layers, c.Dim, "ids")
}

// recording is a model with PyTorch's results; inner is the width of all heads. It leaves out the
// keys' part of the bias of a projection whose columns are qkv or kv: its gradient is zero.
func recording(oracle *programtest.Oracle, layers []nn.Layer, inner int, inputs ...string) modeltest.Recording {
	return modeltest.Recording{Oracle: oracle, Layers: layers, Inputs: inputs, Tolerance: tolerance, LeftOut: func(path string) (from, to int) {
		switch {
		case strings.HasSuffix(path, "/qkv/bias"):
			return inner, 2 * inner
		case strings.HasSuffix(path, "/kv/bias"):
			return 0, inner
		}
		return 0, 0
	}}
}
