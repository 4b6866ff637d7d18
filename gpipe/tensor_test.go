package gpipe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/gnmt"
	"gpipebench/models/llama"
	"gpipebench/models/resnet"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// uneven has 6 heads, 98 columns and a vocabulary of 213, which 4 parts do not divide evenly.
var uneven = lm{
	model: transformer.Config{Layers: 2, Dim: 24, FeedForward: 98, Heads: 6, Vocab: 213, SeqLen: 7, Dropout: 0.1, FinalNorm: true},
	batch: 6, ragged: true, smooth: 0.1, steps: 2,
}

// unevenTranslation is the same for an encoder-decoder.
var unevenTranslation = translation{
	model: transformer.TranslationConfig{
		Layers: 2, Dim: 24, FeedForward: 98, Heads: 6, HeadDim: 4, SourceVocab: 213, SourceLen: 5, TargetLen: 4, Dropout: 0.1, FinalNorm: true,
	},
	batch: 6, steps: 2,
}

// unevenResNet has 6, 12, 24 and 48 channels in bottlenecks, and unevenSmallResNet 5, 10 and 20 in basic
// blocks.
var (
	unevenResNet = images{
		layers: func(fine bool) ([]nn.Layer, error) {
			return resnet.New(resnet.Config{Blocks: [4]int{1, 2, 1, 1}, Width: 6, Classes: imageClasses, Image: 33, Fine: fine})
		},
		loss: nn.CrossEntropy{Smoothing: 0.1},
		size: 33, sizes: []int{6, 5}, least: 1, norm: true,
	}
	unevenSmallResNet = images{
		layers: func(fine bool) ([]nn.Layer, error) {
			return resnet.New(resnet.Config{Depth: 20, Width: 5, Classes: imageClasses, Image: 9, Fine: fine})
		},
		loss: nn.CrossEntropy{},
		size: 9, sizes: []int{6, 5}, least: 1, norm: true,
	}
)

// layerWise is the network with an optimiser that reads norms, and an average.
func (n images) layerWise(t testing.TB, fine bool) Pipeline {
	p := n.pipeline(t, fine)
	p.Optimizer, p.LR, p.EMA = nn.LARS{Unscaled: true, Trust: 0.01}, nn.ConstantLR(1), nn.EMA{Decay: 0.5}
	return p
}

// unevens are networks whose operations parts divide, with their mini-batches.
var unevens = []struct {
	name     string
	pipeline func(t testing.TB, fine bool) Pipeline
	data     func(i int) nn.Batch
	tied     bool // on one partition
	norm     bool // has batch norm
}{
	{"transformer-lm", uneven.cut, uneven.data, false, false},
	{"tied", func(t testing.TB, fine bool) Pipeline {
		l := uneven
		l.model.Tied, l.model.ClipLogits, l.model.Activation = true, 4, nn.GELU
		return l.cut(t, fine)
	}, uneven.data, true, false},
	{"llama", func(t testing.TB, fine bool) Pipeline {
		l := uneven
		l.llama = &llama.Config{Layers: 2, Dim: 16, FeedForward: 98, Heads: 12, KVHeads: 6, HeadDim: 4, RopeTheta: 50}
		return l.cut(t, fine)
	}, uneven.data, false, false},
	{"transformer", func(t testing.TB, _ bool) Pipeline { return unevenTranslation.pipeline(t) }, unevenTranslation.data, false, false},
	{"gnmt", func(t testing.TB, _ bool) Pipeline {
		p := unevenTranslation.pipeline(t)
		m := unevenTranslation.model
		p.Layers = must(gnmt.New(gnmt.Config{Layers: 3, Dim: 10, SourceVocab: m.SourceVocab, SourceLen: m.SourceLen, TargetLen: m.TargetLen, Dropout: 0.2}))(t)
		return p
	}, unevenTranslation.data, false, false},
	{"lars", func(t testing.TB, fine bool) Pipeline {
		l := uneven
		l.model.Fine = fine
		p := l.layerWise(t, nn.LARS{Unscaled: true, Trust: 0.1})
		p.EMA = nn.EMA{Decay: 0.5}
		return p
	}, uneven.data, false, false},
	{"resnet", unevenResNet.pipeline, unevenResNet.data, false, true},
	{"small resnet", unevenSmallResNet.layerWise, unevenSmallResNet.data, false, true},
	// Concatenations, drop-paths and separable convolutions all parts compute alike, and the first layer, whose
	// channels are fewer than parts.
	{"convolutions", func(t testing.TB, fine bool) Pipeline {
		p := smallConvolutions.pipeline(t, fine)
		p.Layers = slices.Insert(p.Layers, 0, nn.Layer(nn.NewConv2D("layer0", nn.Conv2DConfig{In: 3, Out: 3, Kernel: [2]int{3, 3}, Padding: nn.Same})))
		return p
	}, smallConvolutions.data, false, false},
	// Whose heads all parts compute alike.
	{"ssd", smallSSD.pipeline, smallSSD.data, false, true},
}

// divisions are parts and blocks.
var divisions = [][2]int{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 4}, {2, 4}, {4, 4}}

func unevenNames() (names []string) {
	for _, n := range unevens {
		names = append(names, n.name)
	}
	return names
}

// TestG1Tensor: parts that divide operations change no bit. With one block there is one hash for any
// number of parts, that of the undivided network; with four blocks another, for 1, 2 and 4 parts.
func TestG1Tensor(t *testing.T) {
	var levels []string
	for _, d := range divisions {
		levels = append(levels, fmt.Sprintf("T=%d B=%d", d[0], d[1]))
	}
	all := append(slices.Clone(factors), factor{"parts", levels, func(w *way, i int) { w.Tensor, w.Blocks = divisions[i][0], divisions[i][1] }},
		factor{"replicas", []string{"R=1 G=1", "R=1 G=2", "R=2 G=2"}, func(w *way, i int) {
			w.Replicas, w.Groups = []int{1, 1, 2}[i], []int{1, 2, 2}[i]
		}}, variants("network", unevenNames()...))
	all[0] = factor{"K", []string{"1", "2", "3", "4"}, func(w *way, i int) { w.Partitions = i + 1 }}
	all[1] = factor{"M", []string{"1", "2", "3"}, func(w *way, i int) { w.MicroBatches = i + 1 }}
	checkG1(t, all, uneven.batch, func(w *way) arithmetic {
		if unevens[w.variant].tied {
			w.Partitions = 1
		}
		a := arithmetic{variant: w.variant, groups: w.Groups, blocks: w.Blocks}
		if unevens[w.variant].norm {
			w.MicroBatches = min(w.MicroBatches, 4/w.Groups)
			a.micro = w.MicroBatches
		}
		return a
	}, func(t testing.TB, w way) outcome {
		n := unevens[w.variant]
		p := w.of(n.pipeline(t, w.fine))
		if n.tied { // where no schedule with several pieces on a device can share a weight
			p.Schedule, p.Chunks = min(p.Schedule, schedule.OneFOneB), 0
		}
		return train(t, p, uneven.steps, n.data)
	})
}

// Every division of a language model and of a ResNet, with bfloat16 as well; that a small network's hash
// depends on the blocks is not sure then, since rounding hides most of their differences.
func TestTensorDivisions(t *testing.T) {
	for name, c := range map[string]struct {
		Pipeline
		data func(i int) nn.Batch
	}{"transformer-lm": {uneven.pipeline(t), uneven.data}, "resnet": {unevenResNet.pipeline(t, true), unevenResNet.data}} {
		for _, dt := range []graph.DType{graph.F32, graph.BF16} {
			t.Run(fmt.Sprint(name, " ", dt), func(t *testing.T) {
				t.Parallel()
				p := c.Pipeline
				p.DType, p.MicroBatches = dt, 2
				want := map[int]outcome{1: train(t, p, 2, c.data)}
				for i, d := range divisions {
					p.Tensor, p.Blocks, p.Partitions = d[0], d[1], 1+i%4
					p.Schedule = []schedule.Schedule{schedule.GPipe, schedule.OneFOneB, schedule.ZBH1}[i%3]
					if name == "transformer-lm" { // batch norm's bits depend on M
						p.MicroBatches = 1 + i%3
					}
					p.testing.poison = i%2 == 0
					got := train(t, p, 2, c.data)
					if _, ok := want[d[1]]; !ok {
						want[d[1]] = got
					}
					testkit.Equal(t, got, want[d[1]], "T=%d B=%d: got", d[0], d[1])
				}
				if dt == graph.F32 && want[1].hash == want[4].hash {
					t.Error("a hash that does not depend on the blocks")
				}
			})
		}
	}
}

// The gradient of a network in blocks agrees with central differences of its loss along it, and is close
// to the undivided network's.
func TestTensorGradient(t *testing.T) {
	l := uneven
	l.model.Dropout = 0
	tensorGradient(t, l.pipeline(t), l.data(0), 1e-3)
	tensorGradient(t, unevenResNet.pipeline(t, false), unevenResNet.data(0), 5e-3) // with kinks
}

func tensorGradient(t *testing.T, whole Pipeline, b nn.Batch, tolerance float64) {
	t.Helper()
	p := whole
	p.Tensor, p.Blocks, p.ClipNorm = 2, 4, 0
	tr := openedForAll(t, p, InputOf(b))
	plain := opened(t, whole, InputOf(b))
	r := must(tr.Differentiate(t.Context(), b))(t)
	must(plain.Differentiate(t.Context(), b))(t)
	var squares float64
	gradients, undivided := byPath(tr.Gradients()), byPath(plain.Gradients())
	for path, g := range gradients {
		var own, off float64
		for j, v := range g {
			own += float64(v) * float64(v)
			off += math.Pow(float64(v)-float64(undivided[path][j]), 2)
		}
		if off > 1e-10*own {
			t.Errorf("%s: off by %.2g of its norm", path, math.Sqrt(off/own))
		}
		squares += own
	}
	norm := math.Sqrt(squares)
	if off := math.Abs(norm/r.GradNorm - 1); off > 1e-9 {
		t.Errorf("the norm is %v, want %v", r.GradNorm, norm)
	}
	state := stateOf(t, tr)
	at := func(step float64) float64 {
		moved := stateOf(t, tr)
		for i, w := range moved.Weights {
			for j, g := range gradients[w.Path] {
				w.Data[j] = state.Weights[i].Data[j] + float32(step*float64(g)/norm)
			}
		}
		noError(t, tr.Restore(moved))
		return must(tr.Differentiate(t.Context(), b))(t).Loss
	}
	const h = 1e-4
	if slope := (at(h) - at(-h)) / (2 * h); math.Abs(slope/norm-1) > tolerance {
		t.Errorf("slope %v along the gradient, whose norm is %v", slope, norm)
	}
}

// What parts and blocks of operations cannot be is refused in one line.
func TestTensorRefusals(t *testing.T) {
	in := InputOf(uneven.data(0))
	for want, change := range map[string]func(p *Pipeline){
		"4 blocks over 3 parts: want a number of parts that divides them": func(p *Pipeline) { p.Tensor, p.Blocks = 3, 4 },
		"6 blocks over 2 parts":                                     func(p *Pipeline) { p.Tensor, p.Blocks = 2, 6 },
		"65 parts of each operation: want 1 to 64":                  func(p *Pipeline) { p.Tensor = 65 },
		"-1 blocks of each divided axis":                            func(p *Pipeline) { p.Blocks = -1 },
		"layer1/attention/qkv/weight has 6 units to divide":         func(p *Pipeline) { p.Tensor, p.Blocks = 8, 8 },
		"embedding/table has 4 units, groups of 64, to divide":      func(p *Pipeline) { p.Tensor = 5 },
		"2 parts of images with 2 parts and 1 blocks of operations": func(p *Pipeline) { p.Tensor, p.Spatial = 2, 2 },
		"pipedream with 2 parts and 1 blocks of operations":         func(p *Pipeline) { p.Tensor, p.Schedule, p.Window, p.ClipNorm = 2, schedule.PipeDream, 2, 0 },

		"updates divided over replicas": func(p *Pipeline) { p.Tensor, p.Replicas, p.ShardUpdate = 2, 2, true },
		"on overcommitted devices":      func(p *Pipeline) { p.Tensor, p.Devices = 2, []Device{{Overcommit: true, Capacity: 1 << 20}} },
		"with embedding/table on partitions 0 and 1: want each weight": func(p *Pipeline) {
			l := uneven
			l.model.Tied = true
			*p = l.pipeline(t)
			p.Tensor, p.Partitions = 2, 2
		},
		"no layer can be divided: want 1, or a network with attention": func(p *Pipeline) {
			*p = smallAmoebaNet.pipeline(t, false)
			p.Tensor = 2
		},
		"conv/weight has 6 units to divide: want at most as many": func(p *Pipeline) {
			*p = unevenResNet.pipeline(t, false)
			p.Tensor = 7
		},
		"batch norm over replicas: want the scope replica": func(p *Pipeline) {
			*p = unevenResNet.pipeline(t, false)
			p.Tensor, p.Replicas, p.BatchNormScope = 2, 2, AllScope
		},
		"and no layer can be divided": func(p *Pipeline) {
			p.Layers, p.Tensor = []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: 7, Out: 213})}, 2
		},
	} {
		p := uneven.pipeline(t)
		change(&p)
		testkit.Refused(p.Plans(in))(t, want)
	}
}

// One feed-forward layer larger than a device's memory is refused on K devices alone, whatever K is: the
// paper assumes that a single layer fits a device (Huang et al. 2019, section 6). Divided over parts it
// trains, with one block and with as many as parts, and a part's memory falls with their number. The
// paper's own remedy, a layer cut into two, is there as well, and goes no further.
func TestLayerLargerThanADevice(t *testing.T) {
	l := uneven
	l.model.Layers, l.model.FeedForward, l.model.Heads, l.model.Vocab = 1, 8192, 8, 512
	in := InputOf(l.data(0))
	largest := func(p Pipeline) (peak int64) {
		for _, plan := range must(p.Plans(in))(t).Plans {
			peak = max(peak, plan.Peak)
			for _, part := range plan.Parts {
				peak = max(peak, part.Peak)
			}
		}
		return peak
	}
	whole := l.pipeline(t)
	whole.Partitions, whole.MicroBatches = 3, 6
	fine := l
	fine.model.Fine = true
	remedy := fine.pipeline(t)
	remedy.Partitions, remedy.MicroBatches = 4, 6
	capacity := largest(remedy) * 3 / 5
	for _, p := range []Pipeline{whole, remedy} { // by K, and by K with the layer in two
		p.Devices = []Device{{Capacity: capacity}}
		testkit.Refused(p.Open(in))(t, "out of memory at layer layer1")
	}
	before := largest(whole)
	t.Logf("capacity %d; K = 3: %d bytes, the layer in two: %d", capacity, before, largest(remedy))
	for parts := 2; parts <= 8; parts++ {
		p := whole
		p.Tensor = parts
		peak := largest(p)
		t.Logf("T = %d: %d bytes, %.3f of one device's, over 1/T: %.3f", parts, peak, float64(peak)/float64(largest(whole)), float64(peak)/float64(largest(whole))*float64(parts))
		if peak >= before {
			t.Errorf("%d parts need %d bytes, one fewer %d", parts, peak, before)
		}
		before = peak
	}
	for _, blocks := range []int{1, 4} {
		p := whole
		p.Tensor, p.Blocks, p.Devices = 4, blocks, []Device{{Capacity: capacity}}
		got := l.train(t, p)
		p.Tensor, p.Devices, p.Partitions = 1, nil, 1
		testkit.Equal(t, got, l.train(t, p), "%d blocks: got", blocks)
	}
}

// On emulated devices the links of parts count: every exchange, and every beat of turns, takes a link's latency.
func TestTensorLinks(t *testing.T) {
	p := uneven.pipeline(t)
	p.Tensor, p.Devices = 2, []Device{{Kind: Emulated}}
	seconds := func(latency float64) float64 {
		p.Devices[0].Link.Latency = latency
		return stepped(t, opened(t, p, InputOf(uneven.data(0))), uneven.data(0)).Seconds
	}
	if none, some := seconds(0), seconds(1000); some < none+50*1000 {
		t.Errorf("a step of %v s, with links of 1000 s %v s", none, some)
	}
}
