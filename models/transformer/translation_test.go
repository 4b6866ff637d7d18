package transformer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
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

func build(t *testing.T, c TranslationConfig) []nn.Layer {
	t.Helper()
	layers, err := Translation(c)
	if err != nil {
		t.Fatal(err)
	}
	return layers
}

// TestTranslationNames: the pipeline's units, and the paths of seeds and saved
// weights, which are the same for both cuts.
func TestTranslationNames(t *testing.T) {
	describe := func(c TranslationConfig) (names, params []string) {
		seen := map[*nn.Param]bool{}
		for _, l := range build(t, c) {
			names = append(names, l.Name())
			for _, p := range l.Params() {
				if !p.Frozen && !seen[p] {
					params = append(params, l.Name()+"/"+p.Name+p.Shape.String())
				}
				seen[p] = true
			}
		}
		return names, params
	}
	c := tiny
	c.Layers = 1
	coarse, params := describe(c)
	want := []string{"embedding", "encoder1", "decoder1", "softmax"}
	if diff := cmp.Diff(want, coarse); diff != "" {
		t.Errorf("layers (-want +got)\n%s", diff)
	}
	want = strings.Fields(`
		embedding/source/table(5,4) embedding/target/table(7,4)
		encoder1/attention/norm/gamma(4) encoder1/attention/norm/beta(4)
		encoder1/attention/qkv/weight(4,18) encoder1/attention/qkv/bias(18)
		encoder1/attention/out/weight(6,4) encoder1/attention/out/bias(4)
		encoder1/feedforward/norm/gamma(4) encoder1/feedforward/norm/beta(4)
		encoder1/feedforward/in/weight(4,8) encoder1/feedforward/in/bias(8)
		encoder1/feedforward/out/weight(8,4) encoder1/feedforward/out/bias(4)
		encoder1/norm/gamma(4) encoder1/norm/beta(4)
		decoder1/attention/norm/gamma(4) decoder1/attention/norm/beta(4)
		decoder1/attention/qkv/weight(4,18) decoder1/attention/qkv/bias(18)
		decoder1/attention/out/weight(6,4) decoder1/attention/out/bias(4)
		decoder1/cross/norm/gamma(4) decoder1/cross/norm/beta(4)
		decoder1/cross/q/weight(4,6) decoder1/cross/q/bias(6)
		decoder1/cross/kv/weight(4,12) decoder1/cross/kv/bias(12)
		decoder1/cross/out/weight(6,4) decoder1/cross/out/bias(4)
		decoder1/feedforward/norm/gamma(4) decoder1/feedforward/norm/beta(4)
		decoder1/feedforward/in/weight(4,8) decoder1/feedforward/in/bias(8)
		decoder1/feedforward/out/weight(8,4) decoder1/feedforward/out/bias(4)
		softmax/weight(7,4) softmax/bias(7)`)
	if diff := cmp.Diff(want, params); diff != "" {
		t.Errorf("parameters (-want +got)\n%s", diff)
	}

	c.Fine = true
	fine, fineParams := describe(c)
	want = []string{
		"embedding", "encoder1/attention", "encoder1/feedforward", "encoder1/norm",
		"decoder1/attention", "decoder1/cross", "decoder1/feedforward", "softmax",
	}
	if diff := cmp.Diff(want, fine); diff != "" {
		t.Errorf("fine layers (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(params, fineParams); diff != "" {
		t.Errorf("fine parameters (-coarse +fine)\n%s", diff)
	}

	c.Tie = TieSoftmax
	_, params = describe(c)
	if !slices.Contains(params, "embedding/target/table(7,4)") || slices.Contains(params, "softmax/weight(7,4)") {
		t.Errorf("tied to the softmax: parameters %v", params)
	}
	c.Tie, c.TargetVocab = TieAll, 0
	_, params = describe(c)
	if !slices.Contains(params, "embedding/source/table(5,4)") || slices.Contains(params, "embedding/target/table(5,4)") || slices.Contains(params, "softmax/weight(5,4)") {
		t.Errorf("all tied: parameters %v", params)
	}
}

// TestTranslationScaledInit: the cure of section 5 affects the feed-forward
// layers and nothing else, and counts the layers of both halves.
func TestTranslationScaledInit(t *testing.T) {
	c := tiny
	plain := values(build(t, c))
	c.ScaledInit = true
	for path, scaled := range values(build(t, c)) {
		factor := 1.
		if strings.Contains(path, "/feedforward/") && strings.HasSuffix(path, "/weight") {
			factor = 4
		}
		for i, v := range scaled {
			if want := float64(plain[path][i]) / factor; math.Abs(float64(v)-want) > 1e-7*math.Abs(want) {
				t.Fatalf("%s: element %d is %v, want %v", path, i, v, want)
			}
		}
	}
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
		if got, err := ParseTie(tie.String()); got != tie || err != nil {
			t.Errorf("%v is read as %v, %v", tie, got, err)
		}
	}
	if _, err := ParseTie("both"); err == nil || !strings.Contains(err.Error(), "want none, softmax or all") {
		t.Errorf("error %v", err)
	}
}

// TestTranslationOptions: every option has an effect on the trace, in either
// cut.
func TestTranslationOptions(t *testing.T) {
	c := tiny
	c.Layers, c.Activation, c.Dropout, c.ClipLogits = 1, nn.GELU, 0.25, 1.5
	for _, c.Fine = range []bool{false, true} {
		in := []graph.Type{programtest.Integers(1, 6), programtest.Integers(1), programtest.Integers(1, 9)}
		s := trace.Layers(build(t, c), 0, nil, in, nil, true)
		if got, want := s.Out[0].Shape.String(), "(1,9,7)"; got != want {
			t.Errorf("logits %s, want %s", got, want)
		}
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
		want := []string{
			"embedding/source/dropout 0.25", "embedding/target/dropout 0.25",
			"attention {Heads:2 HeadDim:3 Cross:false Causal:false Padded:true}", "encoder1/attention/dropout 0.25",
			"gelu", "encoder1/feedforward/dropout 0.25",
			"attention {Heads:2 HeadDim:3 Cross:false Causal:true Padded:false}", "decoder1/attention/dropout 0.25",
			"attention {Heads:2 HeadDim:3 Cross:true Causal:false Padded:true}", "decoder1/cross/dropout 0.25",
			"gelu", "decoder1/feedforward/dropout 0.25",
			"clip 1.5",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fine %v: (-want +got)\n%s", c.Fine, diff)
		}
	}
}

// TestTranslationGradients compares every parameter's gradient with finite
// differences, with dropout and without the kinks of ReLU and clipping.
func TestTranslationGradients(t *testing.T) {
	c := tiny
	c.Layers, c.TargetVocab, c.Activation, c.Dropout, c.Tie = 1, 0, nn.GELU, 0.1, TieAll
	r := programtest.CompileLayers(t, programtest.Network{
		Layers: build(t, c), Loss: nn.CrossEntropy{Smoothing: 0.1},
		In:      []graph.Type{programtest.Integers(2, 3), programtest.Integers(2), programtest.Integers(2, 4)},
		Targets: []graph.Type{programtest.Integers(2, 4)},
	})
	for i, data := range [][]int32{{1, 4, 2, 3, 3, 0}, {3, 2}, {0, 2, 1, 4, 0, 3, 3, 1}} {
		copy(programtest.Ints(r.In(i)), data)
	}
	copy(programtest.Ints(r.Feed(0)), []int32{2, 1, 4, 4, 3, 3, -1, -1})
	r.Env.LossScale = 4                   // gradients near 1
	for _, p := range r.Function.Params { // few digits, so that a step away from them is exact
		if p.Role == graph.Param {
			stream := philox.NewStream(philox.KeyOf(2, p.Name), 0)
			for i := range r.Param(p.Name) {
				r.Param(p.Name)[i] = float32(math.Round(16*stream.Normal()) / 64)
			}
		}
	}
	r.CheckGradients(t, true)
}
