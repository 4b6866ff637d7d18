package llama

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

func ExampleNew() {
	layers, err := New(Config{Layers: 2, Dim: 64, FeedForward: 172, Heads: 4, KVHeads: 2, Vocab: 1000, SeqLen: 128})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range layers {
		fmt.Println(l.Name(), nn.CountParams([]nn.Layer{l}))
	}
	fmt.Println(nn.CountParams(layers), "parameters")
	// Output:
	// embedding 64000
	// layer1 45440
	// layer2 45440
	// softmax 64064
	// 218944 parameters
}

// TestPublished counts the parameters of published networks, by their shapes alone. The counts are
// what the pages of meta-llama/Llama-2-7b-hf, Llama-2-13b-hf, Llama-2-70b-hf, Meta-Llama-3-8B,
// Meta-Llama-3-70B and Llama-3.1-405B, and of HuggingFaceTB/SmolLM2-135M, on huggingface.co state as
// the elements of their safetensors files; sizes are from their config.json, and from Table 1 of
// arXiv 2307.09288 and Table 3 of arXiv 2407.21783.
func TestPublished(t *testing.T) {
	want := map[string]int64{
		"llama2-7b": 6_738_415_616, "llama2-13b": 13_015_864_320, "llama2-70b": 68_976_648_192,
		"llama3-8b": 8_030_261_248, "llama3-70b": 70_553_706_496, "llama3-405b": 405_853_388_800, "smollm2-135m": 134_515_008,
	}
	for _, n := range Published {
		for _, fine := range []bool{false, true} {
			c := n.Config
			c.Fine = fine
			got := nn.CountParams(modeltest.Build(t, New, c))
			if byHand := countByHand(c.WithDefaults()); got != want[n.Name] || got != n.Params || got != byHand {
				t.Errorf("%s, fine %v: %d parameters, want %d and %d; by hand %d", n.Name, fine, got, want[n.Name], n.Params, byHand)
			}
		}
	}
	testkit.Equal(t, len(Published), len(want), "published networks")
}

func countByHand(c Config) int64 {
	d, f, v := int64(c.Dim), int64(c.FeedForward), int64(c.Vocab)
	attention := 2*d*int64(c.Heads*c.HeadDim) + 2*d*int64(c.KVHeads*c.HeadDim)
	tables := 2 * v * d
	if c.Tied {
		tables = v * d
	}
	return tables + int64(c.Layers)*(attention+3*d*f+2*d) + d
}

// One of the devices that divide each layer has a share of each matrix, and whole norms.
func TestPart(t *testing.T) {
	whole := Config{Layers: 3, Dim: 64, FeedForward: 96, Heads: 8, KVHeads: 4, Vocab: 40, SeqLen: 4}
	part := whole
	part.Parts = nn.Parts{Count: 2, Sequence: true}
	const norms = (2*3 + 1) * 64
	all, half := nn.CountParams(modeltest.Build(t, New, whole)), nn.CountParams(modeltest.Build(t, New, part))
	testkit.Equal(t, half-norms, (all-norms)/2, "a half has %d parameters of %d", half, all)
}

// Every weight has a name of its own in published files.
func TestNames(t *testing.T) {
	want := strings.Fields(`model.embed_tokens.weight
		model.layers.0.input_layernorm.weight model.layers.0.self_attn.q_proj.weight model.layers.0.self_attn.k_proj.weight
		model.layers.0.self_attn.v_proj.weight model.layers.0.self_attn.o_proj.weight model.layers.0.post_attention_layernorm.weight
		model.layers.0.mlp.gate_proj.weight model.layers.0.mlp.up_proj.weight model.layers.0.mlp.down_proj.weight
		model.norm.weight lm_head.weight`)
	for _, tied := range []bool{false, true} {
		for _, fine := range []bool{false, true} {
			var names []string
			seen := map[*nn.Param]bool{}
			for _, l := range modeltest.Build(t, New, Config{Layers: 1, Dim: 4, FeedForward: 5, Heads: 2, Vocab: 3, SeqLen: 2, Tied: tied, Fine: fine}) {
				for _, p := range l.Params() {
					if !p.Frozen && !seen[p] {
						names = append(names, p.Published)
					}
					seen[p] = true
				}
			}
			want := want
			if tied {
				want = want[:len(want)-1]
			}
			testkit.Equal(t, strings.Join(names, " "), strings.Join(want, " "), "tied %v, fine %v", tied, fine)
		}
	}
}

// The table of docs/howto.md has the path and the published name of each weight, and its shape.
func TestHowto(t *testing.T) {
	howto := testkit.Must(os.ReadFile("../../docs/howto.md"))(t)
	rows := regexp.MustCompile("(?m)^\\| `([a-z_.N]+)`[^|]*\\| `([a-zN/0-9]+)` \\|").FindAllStringSubmatch(string(howto), -1)
	names := map[string]string{}
	for _, row := range rows {
		names[strings.Replace(row[2], "layerN", "layer1", 1)] = strings.Replace(row[1], "layers.N", "layers.0", 1)
	}
	count := 0
	for _, l := range modeltest.Build(t, New, Config{Layers: 1, Dim: 4, FeedForward: 5, Heads: 2, Vocab: 3, SeqLen: 2}) {
		for _, p := range l.Params() {
			if p.Frozen {
				continue
			}
			count++
			if path := l.Name() + "/" + p.Name; names[path] != p.Published {
				t.Errorf("%s is %s, and %q in the table", path, p.Published, names[path])
			}
		}
	}
	testkit.Equal(t, len(names), count, "rows of names")
}

func TestValidate(t *testing.T) {
	good := Config{Layers: 1, Dim: 8, FeedForward: 8, Heads: 4, KVHeads: 2, Vocab: 5, SeqLen: 3}
	modeltest.Refuses(t, good, New, map[string]func(c *Config){
		"Layers is 0, want at least 1":      func(c *Config) { c.Layers = 0 },
		"Dim is -4":                         func(c *Config) { c.Dim = -4 },
		"FeedForward is 0":                  func(c *Config) { c.FeedForward = 0 },
		"Heads is 0":                        func(c *Config) { c.Heads, c.KVHeads = 0, 1 },
		"KVHeads is -1":                     func(c *Config) { c.KVHeads = -1 },
		"KVHeads is 3, want a divisor of 4": func(c *Config) { c.KVHeads = 3 },
		"Vocab is 0":                        func(c *Config) { c.Vocab = 0 },
		"SeqLen is 0":                       func(c *Config) { c.SeqLen = 0 },
		"3 heads do not divide Dim 8":       func(c *Config) { c.Heads, c.KVHeads = 3, 3 },
		"HeadDim is 1, want an even number": func(c *Config) { c.Heads = 8 },
		"HeadDim is 3, want an even number": func(c *Config) { c.HeadDim = 3 },
		"RopeTheta is 1, want more than 1":  func(c *Config) { c.RopeTheta = 1 },
		"-2 parts of each layer":            func(c *Config) { c.Parts.Count = -2 },
		"4 parts and KVHeads 6": func(c *Config) {
			c.HeadDim, c.Heads, c.KVHeads, c.Vocab, c.Parts.Count = 2, 12, 6, 8, 4
		},
		"2 parts do not divide Vocab 5":  func(c *Config) { c.Parts.Count = 2 },
		"2 parts do not divide SeqLen 3": func(c *Config) { c.Vocab, c.Parts = 6, nn.Parts{Count: 2, Sequence: true} },
	})
}

// The products of T parts are the whole's, with grouped heads of keys, of which a part has at least one.
func TestPartsAreTheWhole(t *testing.T) {
	whole := Config{Layers: 1, Dim: 64, FeedForward: 96, Heads: 8, KVHeads: 4, Vocab: 48, SeqLen: 16}
	flops := func(c Config) (forward, backward int64) {
		layers := testkit.Must(New(c))(t)
		shape := graph.Shape{2, c.SeqLen, c.Dim}
		if c.Parts.Sequence {
			shape[1] /= c.Parts.Count
		}
		traced := trace.Layers(layers[1:2], 1, nil, []graph.Type{{Shape: shape, DType: graph.F32}}, nil, true)
		st := program.Compile(traced.Function, []bool{true}, true, 1, program.Storage{})
		return st.Forward.FLOPs(), st.Backward.FLOPs()
	}
	wantForward, wantBackward := flops(whole)
	for _, parts := range []nn.Parts{{Count: 2}, {Count: 4, Sequence: true}} {
		c := whole
		c.Parts = parts
		if forward, backward := flops(c); int64(parts.Count)*forward != wantForward || int64(parts.Count)*backward != wantBackward {
			t.Errorf("%+v: %d and %d FLOPs of each, want a part of %d and %d", parts, forward, backward, wantForward, wantBackward)
		}
	}
	// Of 8 parts each has a head of keys, of which there are 4.
	eight := whole
	eight.Parts = nn.Parts{Count: 8}
	testkit.Equal(t, eight.WithDefaults().part().KVHeads, 1, "heads of keys in a part of 8")
	for change, want := range map[nn.Parts]string{{Count: 3}: "3 parts do not divide Heads 8", {Count: 16}: "16 parts do not divide Heads 8"} {
		c := whole
		c.Parts = change
		testkit.Fails(t, c.Validate(), want)
	}
}
