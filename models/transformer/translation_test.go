package transformer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

func ExampleTranslation() {
	layers, err := Translation(TranslationConfig{
		Layers: 2, Dim: 64, FeedForward: 256, Heads: 8, HeadDim: 16, SourceVocab: 1000, SourceLen: 128, Tie: TieAll,
	})
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
	// encoder1 66560
	// encoder2 66688
	// decoder1 99904
	// decoder2 99904
	// softmax 65000
	// 398056 parameters, the table once
}

// tiny is a translation model whose sizes all differ.
var tiny = TranslationConfig{
	Layers: 2, Dim: 4, FeedForward: 8, Heads: 2, HeadDim: 3,
	SourceVocab: 5, TargetVocab: 7, SourceLen: 6, TargetLen: 9,
}

func build(t *testing.T, c TranslationConfig) []nn.Layer { return modeltest.Build(t, Translation, c) }

// decoderOnly is a language model whose sizes all differ.
var decoderOnly = Config{Layers: 2, Dim: 4, FeedForward: 8, Heads: 2, Vocab: 5, SeqLen: 3}

// TestLayerNames: the pipeline's units in either cut. The parameters' paths, which
// PyTorch's recordings have, are the same in both.
func TestLayerNames(t *testing.T) {
	lm, both := decoderOnly, tiny
	both.Layers = 1
	names := func() (all string) {
		for _, l := range append(modeltest.Build(t, LM, lm), build(t, both)...) {
			all += l.Name() + " "
		}
		return all
	}
	testkit.Equal(t, names(), "embedding layer1 layer2 softmax embedding encoder1 decoder1 softmax ", "layers")
	lm.Fine, both.Fine = true, true
	want := "embedding layer1/attention layer1/feedforward layer2/attention layer2/feedforward softmax " +
		"embedding encoder1/attention encoder1/feedforward encoder1/norm decoder1/attention decoder1/cross decoder1/feedforward softmax "
	testkit.Equal(t, names(), want, "fine layers")
}

// TestScaledInit: the cure of section 5 affects the feed-forward layers and
// nothing else, and counts the layers of both halves.
func TestScaledInit(t *testing.T) {
	lm, both := decoderOnly, tiny
	lm.Layers = 4 // as many as tiny has in both halves
	check := func(plain, scaled map[string][]float32) {
		for path, got := range scaled {
			factor := 1.
			if strings.Contains(path, "/feedforward/") && strings.HasSuffix(path, "/weight") {
				factor = 4
			}
			for i, v := range got {
				if want := float64(plain[path][i]) / factor; math.Abs(float64(v)-want) > 1e-7*math.Abs(want) {
					t.Fatalf("%s: element %d is %v, want %v", path, i, v, want)
				}
			}
		}
	}
	plain, plainBoth := values(modeltest.Build(t, LM, lm)), values(build(t, both))
	lm.ScaledInit, both.ScaledInit = true, true
	check(plain, values(modeltest.Build(t, LM, lm)))
	check(plainBoth, values(build(t, both)))
}

// TestOptionsReachTheLayers: every option has an effect on the trace, in either
// cut.
func TestOptionsReachTheLayers(t *testing.T) {
	lm, both := decoderOnly, tiny
	lm.Activation, lm.Dropout, lm.ClipLogits = nn.GELU, 0.25, 1.5
	both.Layers, both.Activation, both.Dropout, both.ClipLogits = 1, nn.GELU, 0.25, 1.5
	for _, fine := range []bool{false, true} {
		lm.Fine, both.Fine = fine, fine
		attention := "attention 2 2 false true false"
		want := []string{
			"embedding/dropout 0.25",
			attention, "layer1/attention/dropout 0.25", "gelu", "layer1/feedforward/dropout 0.25",
			attention, "layer2/attention/dropout 0.25", "gelu", "layer2/feedforward/dropout 0.25",
			"clip 1.5",
		}
		testkit.Equal(t, cmp.Diff(want, optionCalls(t, modeltest.Build(t, LM, lm), "(1,3,5)", programtest.Integers(1, 3))), "", "fine %v: (-want +got)", fine)
		want = []string{
			"embedding/source/dropout 0.25", "embedding/target/dropout 0.25",
			"attention 2 3 false false true", "encoder1/attention/dropout 0.25",
			"gelu", "encoder1/feedforward/dropout 0.25",
			"attention 2 3 false true false", "decoder1/attention/dropout 0.25",
			"attention 2 3 true false true", "decoder1/cross/dropout 0.25",
			"gelu", "decoder1/feedforward/dropout 0.25",
			"clip 1.5",
		}
		in := []graph.Type{programtest.Integers(1, 6), programtest.Integers(1), programtest.Integers(1, 9)}
		testkit.Equal(t, cmp.Diff(want, optionCalls(t, build(t, both), "(1,9,7)", in...)), "", "fine %v: (-want +got)", fine)
	}
}

// optionCalls lists the calls of a model with options, whose logits must have the shape.
func optionCalls(t *testing.T, layers []nn.Layer, logits string, in ...graph.Type) (all []string) {
	t.Helper()
	s := trace.Layers(layers, 0, nil, in, nil, true)
	testkit.Equal(t, s.Out[0].Shape.String(), logits, "logits")
	for _, call := range s.Function.Graph.Calls {
		switch o := call.Op.(type) {
		case op.Dropout:
			all = append(all, fmt.Sprint(o.Path, " ", o.Rate))
		case op.GELU:
			all = append(all, "gelu")
		case op.Clip:
			all = append(all, fmt.Sprint("clip ", o.Limit))
		case op.Attention:
			all = append(all, fmt.Sprintf("attention %+v", o))
		}
	}
	return all
}

func TestTranslationValidate(t *testing.T) {
	modeltest.Refuses(t, tiny, Translation, map[string]func(c *TranslationConfig){
		"Layers is 0, want at least 1":   func(c *TranslationConfig) { c.Layers = 0 },
		"Dim is -4":                      func(c *TranslationConfig) { c.Dim = -4 },
		"FeedForward is 0":               func(c *TranslationConfig) { c.FeedForward = 0 },
		"Heads is 0":                     func(c *TranslationConfig) { c.Heads = 0 },
		"HeadDim is -1":                  func(c *TranslationConfig) { c.HeadDim = -1 },
		"3 heads do not divide Dim 4":    func(c *TranslationConfig) { c.Heads, c.HeadDim = 3, 0 },
		"SourceVocab is 0":               func(c *TranslationConfig) { c.SourceVocab = 0 },
		"TargetVocab is -1":              func(c *TranslationConfig) { c.TargetVocab = -1 },
		"SourceLen is 0":                 func(c *TranslationConfig) { c.SourceLen = 0 },
		"TargetLen is -1":                func(c *TranslationConfig) { c.TargetLen = -1 },
		"SourceVocab is 5 and":           func(c *TranslationConfig) { c.Tie = TieAll },
		"want none, softmax or all":      func(c *TranslationConfig) { c.Tie = 3 },
		"Activation is sigmoid":          func(c *TranslationConfig) { c.Activation = nn.Sigmoid },
		"Dropout is 1":                   func(c *TranslationConfig) { c.Dropout = 1 },
		"ClipLogits is -1, want at leas": func(c *TranslationConfig) { c.ClipLogits = -1 },
	})
}

func TestParseTie(t *testing.T) {
	for _, tie := range []Tie{TieNone, TieSoftmax, TieAll} {
		testkit.Equal(t, testkit.Must(ParseTie(tie.String()))(t), tie, "%v is read as", tie)
	}
	testkit.Refused(ParseTie("both"))(t, "want none, softmax or all")
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
