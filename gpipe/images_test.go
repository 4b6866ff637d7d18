package gpipe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/amoebanet"
	"gpipebench/models/resnet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
)

// images is a small network for images and a way to run it. The last of its
// mini-batches is short.
type images struct {
	layers func(fine bool) ([]nn.Layer, error)
	loss   nn.Loss
	size   int // height and width
	sizes  []int
	least  int  // examples of a micro-batch
	norm   bool // has batch norm
}

const imageClasses = 5

// smallAmoebaNet has all that the large one has: an auxiliary head, drop-path,
// dropout and label smoothing. Its last batch norm has one pixel per image, so a
// micro-batch of one has no statistics.
var smallAmoebaNet = images{
	layers: func(bool) ([]nn.Layer, error) {
		return amoebanet.New(amoebanet.Config{
			Layers: 3, Filters: 8, Classes: imageClasses, Image: 17,
			DropPath: 0.3, Dropout: 0.2, Aux: true, AuxScale: 0.1,
		})
	},
	loss: nn.AuxiliaryLoss{CrossEntropy: nn.CrossEntropy{Smoothing: 0.1}},
	size: 17, sizes: []int{9, 9, 8}, least: 2, norm: true,
}

// smallAmoebaNetB has separable convolutions, and a drop-path that rises with the
// steps as well.
var smallAmoebaNetB = images{
	layers: func(bool) ([]nn.Layer, error) {
		return amoebanet.New(amoebanet.Config{
			Cells: amoebanet.B, Layers: 3, Filters: 16, Classes: imageClasses, Image: 19,
			DropPath: 0.4, DropPathSteps: 2, Dropout: 0.2, Aux: true, AuxScale: 0.1,
		})
	},
	loss: nn.AuxiliaryLoss{CrossEntropy: nn.CrossEntropy{Smoothing: 0.1}},
	size: 19, sizes: []int{9, 9, 8}, least: 2, norm: true,
}

var smallResNet = images{
	layers: func(fine bool) ([]nn.Layer, error) {
		return resnet.New(resnet.Config{
			Blocks: [4]int{1, 2, 2, 1}, Width: 4, Classes: imageClasses, Image: 33, Fine: fine,
		})
	},
	loss: nn.CrossEntropy{Smoothing: 0.1},
	size: 33, sizes: []int{9, 9, 5}, least: 1, norm: true,
}

// smallConvolutions has no batch norm: convolutions with biases of every kernel,
// stride and padding, separable ones, pools, a concatenation, dropout and drop-path.
var smallConvolutions = images{
	layers: func(bool) ([]nn.Layer, error) { return convolutions(), nil },
	loss:   nn.CrossEntropy{Smoothing: 0.1},
	size:   13, sizes: []int{9, 9, 5}, least: 1,
}

func convolutions() []nn.Layer {
	conv := func(in, out, kh, kw, stride int, p nn.Padding) nn.Layer {
		return nn.NewConv2D("conv", nn.Conv2DConfig{In: in, Out: out, Kernel: [2]int{kh, kw}, Stride: [2]int{stride, stride}, Padding: p, Bias: true, ByChannels: true})
	}
	layer := func(i int, f func(t *nn.Trace, x, y *graph.Node) *graph.Node, l nn.Layer) nn.Layer {
		return nn.Sequential(fmt.Sprint("layer", i), residual{l, f})
	}
	relu := func(t *nn.Trace, _, y *graph.Node) *graph.Node { return t.ReLU(y) }
	add := func(t *nn.Trace, x, y *graph.Node) *graph.Node {
		return t.ReLU(t.Add(nn.NewDropPath("drop-path", 0.3).Forward(t, y)[0], x))
	}
	return []nn.Layer{
		layer(1, relu, conv(3, 16, 3, 3, 1, nn.Same)),
		layer(2, add, conv(16, 16, 1, 7, 1, nn.Same)),
		layer(3, func(t *nn.Trace, x, y *graph.Node) *graph.Node {
			w := op.Square(3, 2).Same(x.Shape[1], x.Shape[2])
			return t.Concat(t.ReLU(y), t.MaxPool(x, w))
		}, conv(16, 8, 3, 3, 2, nn.Same)),
		layer(4, add, conv(24, 24, 7, 1, 1, nn.Same)),
		layer(5, func(t *nn.Trace, x, y *graph.Node) *graph.Node {
			return t.Concat(y, t.ReLU(t.AvgPool(x, op.Square(3, 2))))
		}, conv(24, 8, 1, 1, 2, nn.Pads(-1, 0, -1, 0))),
		layer(6, add, conv(32, 32, 1, 1, 1, nn.Valid)),
		layer(7, func(t *nn.Trace, _, y *graph.Node) *graph.Node {
			return nn.NewDropout("dropout", 0.2).Forward(t, t.ReLU(y))[0]
		}, conv(32, 40, 3, 3, 1, nn.Pad(1))),
		layer(8, add, nn.NewSeparable("separable", nn.SeparableConfig{In: 40, Out: 40, Kernel: [2]int{3, 3}, Dilation: 2, Padding: nn.Same})),
		nn.Sequential("classifier", nn.NewGlobalAvgPool("pool"), nn.NewDense("", nn.DenseConfig{In: 40, Out: imageClasses})),
	}
}

// residual joins a layer's input x with its output y.
type residual struct {
	nn.Layer
	join func(t *nn.Trace, x, y *graph.Node) *graph.Node
}

func (r residual) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{r.join(t, in[0], r.Layer.Forward(t, in...)[0])}
}

func (n images) pipeline(t testing.TB, fine bool) Pipeline {
	t.Helper()
	return Pipeline{
		Layers: must(n.layers(fine))(t), Loss: n.loss,
		Numerics: Numerics{Seed: 42, Optimizer: nn.RMSProp{}, LR: nn.ConstantLR(0.02), ClipNorm: 5, L2: 1e-3},
	}
}

// imageBatches keeps what has been drawn, which takes as long as a step.
var imageBatches sync.Map

// data is mini-batch i of random images, the caller's own.
func (n images) data(i int) nn.Batch {
	key := [3]int{i, n.sizes[i%len(n.sizes)], n.size}
	b, ok := imageBatches.Load(key)
	if !ok {
		b = n.draw(i)
		imageBatches.Store(key, b)
	}
	own := b.(nn.Batch)
	own.Inputs, own.Targets = copied(own.Inputs), copied(own.Targets)
	return own
}

func copied(tensors []nn.Tensor) []nn.Tensor {
	tensors = slices.Clone(tensors)
	for i := range tensors {
		t := &tensors[i]
		t.Shape, t.F32, t.I32 = slices.Clone(t.Shape), slices.Clone(t.F32), slices.Clone(t.I32)
	}
	return tensors
}

func (n images) draw(i int) nn.Batch {
	r := philox.NewStream(philox.KeyOf(7, "images"), uint64(i))
	examples := n.sizes[i%len(n.sizes)]
	x, labels := make([]float32, examples*n.size*n.size*3), make([]int32, examples)
	for j := range x {
		x[j] = float32(r.Normal())
	}
	for j := range labels {
		labels[j] = int32(r.Intn(imageClasses))
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{examples, n.size, n.size, 3}, F32: x}},
		Targets: []nn.Tensor{{Shape: []int{examples}, I32: labels}},
		Count:   examples,
	}
}

func (n images) open(t testing.TB, p Pipeline) *Trainer {
	t.Helper()
	return openedForAll(t, p, InputOf(n.data(0)))
}

// TestG1Images is G1 for networks with batch norm: one hash, moving averages
// included, over a pairwise-covering set of ways to run at each M. M does not
// divide the mini-batches, and the last one is short.
func TestG1Images(t *testing.T) { imagesG1(t, graph.F32) }

func imagesG1(t *testing.T, dt graph.DType) {
	networks := []images{smallConvolutions, smallAmoebaNet, smallAmoebaNetB, smallResNet}
	all := append([]factor{variants("network", "convolutions", "amoebanet", "amoebanet-b", "resnet")}, factors...)
	checkG1(t, all, 9, func(w *way) arithmetic {
		n := networks[w.variant]
		w.MicroBatches = min(w.MicroBatches, n.sizes[0]/n.least)
		return n.arithmetic(*w)
	}, func(t testing.TB, w way) outcome {
		n := networks[w.variant]
		p := w.of(n.pipeline(t, w.fine))
		p.DType = dt
		return train(t, p, len(n.sizes), n.data)
	})
}

// arithmetic says what decides the bits of n's ways: micro-batches do where they have batch norm's statistics.
func (n images) arithmetic(w way) arithmetic {
	a := arithmetic{variant: w.variant, groups: w.Groups}
	if n.norm {
		a.micro, a.scope = w.MicroBatches, w.BatchNormScope
	}
	return a
}

// TestMovingAverages: they move once a mini-batch, by the statistics of all its
// examples ("we also track the moving average of the sufficient statistics over
// the entire mini-batch to be used during evaluation", Huang et al. 2019,
// section 2.2). The input of the stem's batch norm does not depend on other
// statistics, so its averages equal a convolution by hand, at every M.
func TestMovingAverages(t *testing.T) {
	n := smallResNet
	const momentum, channels = 0.9, 4
	for _, m := range []int{1, 2, 4, 9} {
		p := n.pipeline(t, false)
		p.MicroBatches, p.Partitions = m, 2
		tr := n.open(t, p)
		mean, variance := make([]float64, channels), make([]float64, channels)
		for c := range channels {
			variance[c] = 1
		}
		for i := range n.sizes { // the last is short
			b := n.data(i)
			out := strided7x7(b.Inputs[0], valuesOf(t, tr, "stem/conv/weight"), channels)
			for c := range channels {
				var sum, squares float64
				for _, v := range out[c] {
					sum += v
				}
				size := float64(len(out[c]))
				for _, v := range out[c] {
					squares += (v - sum/size) * (v - sum/size)
				}
				mean[c] = momentum*mean[c] + (1-momentum)*sum/size
				variance[c] = momentum*variance[c] + (1-momentum)*squares/(size-1)
			}
			stepped(t, tr, b)
			movingMean, movingVariance := valuesOf(t, tr, "stem/conv/moving_mean"), valuesOf(t, tr, "stem/conv/moving_variance")
			for c := range channels {
				if got := float64(movingMean[c]); math.Abs(got-mean[c]) > 1e-6 {
					t.Errorf("M=%d, step %d: moving mean %d is %v, want %v", m, i, c, got, mean[c])
				}
				if got := float64(movingVariance[c]); math.Abs(got-variance[c]) > 1e-5*variance[c] {
					t.Errorf("M=%d, step %d: moving variance %d is %v, want %v", m, i, c, got, variance[c])
				}
			}
		}
	}
}

// strided7x7 convolves x (N, H, W, 3) with w (7, 7, 3, out) at stride 2 and
// padding 3: the pixels of every channel.
func strided7x7(x nn.Tensor, w []float32, out int) [][]float64 {
	channels := make([][]float64, out)
	n, size := x.Shape[0], x.Shape[1]
	for e := range n {
		for y := 0; y < size; y += 2 {
			for x0 := 0; x0 < size; x0 += 2 {
				sums := make([]float64, out)
				for ky := range 7 {
					for kx := range 7 {
						h, v := y+ky-3, x0+kx-3
						if h < 0 || h >= size || v < 0 || v >= size {
							continue
						}
						for c := range 3 {
							pixel := float64(x.F32[((e*size+h)*size+v)*3+c])
							for o := range out {
								sums[o] += pixel * float64(w[((ky*7+kx)*3+c)*out+o])
							}
						}
					}
				}
				for o, v := range sums {
					channels[o] = append(channels[o], v)
				}
			}
		}
	}
	return channels
}

// TestEvaluateImages: an evaluation normalises by the moving averages, moves
// nothing and has no auxiliary head, so that it has the same bits at every M, K
// and size of the mini-batch.
func TestEvaluateImages(t *testing.T) {
	for name, n := range map[string]images{"amoebanet": smallAmoebaNet, "amoebanet-b": smallAmoebaNetB, "resnet": smallResNet} {
		t.Run(name, func(t *testing.T) {
			var want []float32
			for _, c := range []struct{ k, m, evaluated int }{{1, 1, 1}, {3, 4, 3}, {5, 2, 4}} {
				p := n.pipeline(t, false)
				p.Partitions, p.MicroBatches = c.k, 2
				tr := n.open(t, p)
				for i := range n.sizes {
					stepped(t, tr, n.data(i))
				}
				before := tr.Hash()
				b := n.data(0)
				b.Inputs[0].Shape[0] = 8
				b.Inputs[0].F32 = b.Inputs[0].F32[:8*n.size*n.size*3]
				var got []float32
				for from := 0; from < 8; from += c.evaluated {
					out := must(tr.Predict(t.Context(), b.Slice(from, min(from+c.evaluated, 8)).Inputs...))(t)
					if len(out) != 1 {
						t.Fatalf("%d outputs, want the logits alone", len(out))
					}
					got = append(got, out[0].F32...)
				}
				if want == nil {
					want = got
				}
				testkit.EqualAll(t, got, want, "K=%d, %d examples at a time: other logits", c.k, c.evaluated)
				testkit.Equal(t, tr.Hash(), before, "predictions change the network")
				must(tr.Evaluate(t.Context(), n.data(1)))(t)
				testkit.Equal(t, tr.Hash(), before, "an evaluation changes the network")
			}
		})
	}
}

// "We reduced the stride value of the first convolution layer and increased the
// stride value at the last convolution layer on AmoebaNet-D (2, 256). As a
// result, the activation memory footprint increased four times but the model
// size stayed the same" (arXiv v1, section 5).
func TestDelayedReduction(t *testing.T) {
	c := amoebanet.Config{Layers: 6, Filters: 256, Classes: 1000}
	plain := describeAmoebaNet(t, c)
	c.Delayed = true
	delayed := describeAmoebaNet(t, c)
	testkit.Equal(t, delayed.Params, plain.Params, "%d parameters, delayed", plain.Params)
	saved := func(d *Description) (n int64) {
		for _, l := range d.Layers {
			n += l.SavedBytes
		}
		return n
	}
	ratio := float64(saved(delayed)) / float64(saved(plain))
	t.Logf("%.2f times the activations: %d MiB an image, %d MiB without", ratio, saved(delayed)>>20, saved(plain)>>20)
	if ratio < 3.8 || ratio > 4 {
		t.Errorf("%.2f times the activations", ratio)
	}
}

// A network whose batch norm sees a single pixel per image cannot be traced for one example, and
// is described per example all the same.
func TestDescribeSmallImages(t *testing.T) {
	c := amoebanet.Config{Layers: 3, Filters: 8, Classes: 10, Image: 32}
	small := describeAmoebaNet(t, c)
	c.Image = 64
	large := describeAmoebaNet(t, c)
	for i, l := range small.Layers[:len(small.Layers)-1] {
		// Four times the pixels, and the same parameters and statistics.
		if four := large.Layers[i]; four.FLOPs != 4*l.FLOPs || four.Params != l.Params || four.SavedBytes <= 3*l.SavedBytes || four.SavedBytes > 4*l.SavedBytes+8*4*l.Params {
			t.Errorf("%s: %d FLOPs and %d bytes at 32 pixels, %d and %d at 64", l.Name, l.FLOPs, l.SavedBytes, four.FLOPs, four.SavedBytes)
		}
	}
	testkit.Equal(t, small.Layers[len(small.Layers)-1].FLOPs, 2*128*10)
}

func describeAmoebaNet(t *testing.T, c amoebanet.Config) *Description {
	t.Helper()
	layers, size := must(amoebanet.New(c))(t), cmp.Or(c.Image, 224)
	return must(Pipeline{Layers: layers, Loss: nn.CrossEntropy{}}.Describe(Input{
		Examples: 1, Inputs: []graph.Type{{Shape: graph.Shape{size, size, 3}, DType: graph.F32}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}},
	}))(t)
}
