package nn_test

import (
	"fmt"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// A network is a list of pipeline layers. The parameters have paths: the
// pipeline layer's name, then the name within it.
func ExampleSequential() {
	layers := []nn.Layer{
		nn.Sequential("hidden",
			nn.NewDense("dense", nn.DenseConfig{In: 784, Out: 128, Activation: nn.ReLU}),
			nn.NewDropout("dropout", 0.1),
		),
		nn.Sequential("classifier", nn.NewDense("", nn.DenseConfig{In: 128, Out: 10})),
	}
	for _, l := range layers {
		for _, p := range l.Params() {
			fmt.Println(l.Name()+"/"+p.Name, p.Shape)
		}
	}
	fmt.Println(nn.CountParams(layers), "parameters")
	// Output:
	// hidden/dense/weight (784,128)
	// hidden/dense/bias (128)
	// classifier/weight (128,10)
	// classifier/bias (10)
	// 101770 parameters
}

// TestDense compares with a calculation by hand, in numbers that are exact.
func TestDense(t *testing.T) {
	r := programtest.CompileLayers(t, programtest.Network{
		Layers: []nn.Layer{nn.Sequential("fc", nn.NewDense("", nn.DenseConfig{In: 2, Out: 3, Activation: nn.ReLU}))},
		In:     one(programtest.Floats(2, 2)),
	})
	copy(r.In(0), []float32{1, 2, 3, -1})
	copy(r.Param("fc/weight"), []float32{1, 0, -1, 2, 1, 0})
	copy(r.Param("fc/bias"), []float32{0.5, -2, 2})
	copy(r.DOut(0), []float32{1, 2, 4, 8, 16, 32})
	r.Keep()
	r.Backward()
	// x·W + b is (5.5 0 1) and (1.5 -3 -1), so the gradient passes at three
	// elements.
	exactly(t, "y", r.Out(0), 5.5, 0, 1, 1.5, 0, 0)
	exactly(t, "dx", r.DIn(0), 1-4, 2, 8, 16)
	exactly(t, "dW", r.Grad("fc/weight"), 1+3*8, 0, 4, 2-8, 0, 8)
	exactly(t, "db", r.Grad("fc/bias"), 9, 0, 4)
}

func exactly(t *testing.T, what string, got []float32, want ...float32) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestNoDecay: which parameters weight decay leaves alone.
func TestNoDecay(t *testing.T) {
	layers := []nn.Layer{
		nn.NewDense("dense", nn.DenseConfig{In: 2, Out: 2}),
		nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: 2}),
		nn.NewEmbedding("embedding", nn.EmbeddingConfig{Vocab: 2, Dim: 2, SeqLen: 2}),
		nn.NewSoftmax("softmax", nn.SoftmaxConfig{Vocab: 2, Dim: 2}),
	}
	decays := map[string]bool{"dense/weight": true, "embedding/table": true, "softmax/weight": true}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen && p.NoDecay == decays[p.Name] {
				t.Errorf("%s: NoDecay is %v", p.Name, p.NoDecay)
			}
		}
	}
}
