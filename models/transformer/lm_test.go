package transformer

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
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
			model, err := LM(Config{Layers: layers, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024, Fine: fine})
			if err != nil {
				t.Fatal(err)
			}
			if got := nn.CountParams(model); got != want {
				t.Errorf("%d layers, fine %v: %d parameters, want %d", layers, fine, got, want)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("%d layers: %d bytes to build", layers, used)
			}
		}
	}
}

// TestLayerNames: the pipeline's units. Their names and parameter names are the
// paths of seeds and saved weights.
func TestLayerNames(t *testing.T) {
	c := Config{Layers: 2, Dim: 4, FeedForward: 8, Heads: 2, Vocab: 5, SeqLen: 3}
	describe := func() (names, paths []string) {
		layers, err := LM(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			names = append(names, l.Name())
			for _, p := range l.Params() {
				paths = append(paths, nn.ScopeOf(l)+"/"+p.Name)
			}
		}
		return names, paths
	}
	coarse, paths := describe()
	if want := []string{"embedding", "layer1", "layer2", "softmax"}; !slices.Equal(coarse, want) {
		t.Errorf("layers %v, want %v", coarse, want)
	}
	c.Fine = true
	fine, finePaths := describe()
	if want := []string{"embedding", "layer1/attention", "layer1/feedforward", "layer2/attention", "layer2/feedforward", "softmax"}; !slices.Equal(fine, want) {
		t.Errorf("fine layers %v, want %v", fine, want)
	}
	if !slices.Equal(paths, finePaths) {
		t.Errorf("fine parameters %v, want %v", finePaths, paths)
	}
}

// TestScaledInit: the cure of section 5 affects the feed-forward layers and
// nothing else.
func TestScaledInit(t *testing.T) {
	c := Config{Layers: 4, Dim: 4, FeedForward: 8, Heads: 2, Vocab: 5, SeqLen: 3}
	build := func() []nn.Layer {
		layers, err := LM(c)
		if err != nil {
			t.Fatal(err)
		}
		return layers
	}
	plain := values(build())
	c.ScaledInit = true
	for path, scaled := range values(build()) {
		factor := 1.
		if strings.Contains(path, "/feedforward/") {
			factor = 4
		}
		for i, v := range scaled {
			if want := float64(plain[path][i]) / factor; math.Abs(float64(v)-want) > 1e-7*math.Abs(want) {
				t.Fatalf("%s: element %d is %v, want %v", path, i, v, want)
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

// TestOptionsReachTheLayers: every option has an effect on the trace, in either
// cut.
func TestOptionsReachTheLayers(t *testing.T) {
	c := Config{
		Layers: 2, Dim: 4, FeedForward: 8, Heads: 2, Vocab: 5, SeqLen: 3,
		Activation: nn.GELU, Dropout: 0.25, ClipLogits: 1.5,
	}
	for _, c.Fine = range []bool{false, true} {
		layers, err := LM(c)
		if err != nil {
			t.Fatal(err)
		}
		s := trace.Layers(layers, 0, nil, []graph.Type{programtest.Integers(1, 3)}, nil, true)
		var got []string
		for _, call := range s.Function.Graph.Calls {
			switch op := call.Op.(type) {
			case graph.DropoutOp:
				got = append(got, fmt.Sprint(op.Path, " ", op.Rate))
			case graph.GELUOp:
				got = append(got, "gelu")
			case graph.ClipOp:
				got = append(got, fmt.Sprint("clip ", op.Limit))
			case graph.AttentionOp:
				got = append(got, fmt.Sprintf("attention %+v", op))
			}
		}
		attention := "attention {Heads:2 HeadDim:2 Cross:false Causal:true Padded:false}"
		want := []string{
			"embedding/dropout 0.25",
			attention, "layer1/attention/dropout 0.25", "gelu", "layer1/feedforward/dropout 0.25",
			attention, "layer2/attention/dropout 0.25", "gelu", "layer2/feedforward/dropout 0.25",
			"clip 1.5",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fine %v: (-want +got)\n%s", c.Fine, diff)
		}
	}
}
