package transformer

import (
	"fmt"
	"runtime"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
)

func ExampleLM() {
	layers, err := LM(Config{Layers: 2, Dim: 64, FeedForward: 256, Heads: 4, Vocab: 1000, SeqLen: 128, Tied: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range layers {
		fmt.Println(l.Name(), nn.CountParams([]nn.Layer{l}))
	}
	fmt.Println(nn.CountParams(layers), "parameters, the table once")
	// Output:
	// embedding 64000
	// layer1 49984
	// layer2 49984
	// softmax 65000
	// 164968 parameters, the table once
}

// TestTable1 counts the parameters of GPipe's Table 1 (Huang et al. 2019),
// printed there as 282.2M, 785.8M, 5.3B, 21.0B and 83.9B. They are only shapes:
// a model of 83.9 billion takes no memory until a device holds it.
func TestTable1(t *testing.T) {
	for _, fine := range []bool{false, true} {
		for layers, want := range map[int]int64{3: 282_178_816, 13: 785_761_536, 103: 5_318_006_016, 415: 21_029_786_880, 1663: 83_876_910_336} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			model := modeltest.Build(t, LM, Config{Layers: layers, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024, Fine: fine})
			testkit.Equal(t, nn.CountParams(model), want, "%d layers, fine %v: parameters", layers, fine)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("%d layers: %d bytes to build", layers, used)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Layers: 1, Dim: 4, FeedForward: 8, Heads: 2, Vocab: 5, SeqLen: 3}
	modeltest.Refuses(t, good, LM, map[string]func(c *Config){
		"Layers is 0, want at least 1":      func(c *Config) { c.Layers = 0 },
		"Dim is -4":                         func(c *Config) { c.Dim = -4 },
		"FeedForward is 0":                  func(c *Config) { c.FeedForward = 0 },
		"Heads is 0":                        func(c *Config) { c.Heads = 0 },
		"Vocab is 0":                        func(c *Config) { c.Vocab = 0 },
		"SeqLen is 0":                       func(c *Config) { c.SeqLen = 0 },
		"3 heads do not divide Dim 4":       func(c *Config) { c.Heads = 3 },
		"Activation is sigmoid":             func(c *Config) { c.Activation = nn.Sigmoid },
		"Dropout is 1":                      func(c *Config) { c.Dropout = 1 },
		"ClipLogits is -1, want at least 0": func(c *Config) { c.ClipLogits = -1 },
	})
}
