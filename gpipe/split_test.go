package gpipe

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// "One possible way around this is splitting a single matrix-multiplication into smaller
// ones and spread them sequentially across multiple layers" (section 6, footnote 3). A
// product that fits no device trains on two of them as two layers, each with half of
// the columns, and ends with the same bits.
func TestSplitMatrixProduct(t *testing.T) {
	const examples, width = 6, 512
	// half is the weight's columns from from on, with values that do not depend on the cut.
	half := func(name string, from, columns int) *nn.Param {
		return &nn.Param{Name: name, Shape: graph.Shape{width, columns}, Init: func(_ *philox.Stream, _ graph.Shape, dst []float32) {
			for i := range dst {
				row, column := i/columns, from+i%columns
				dst[i] = float32(math.Sin(float64(row*width+column))) / 16
			}
		}}
	}
	all, left, right := half("weight", 0, width), half("weight", 0, width/2), half("weight", width/2, width/2)
	whole := []nn.Layer{
		nn.Func("product", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{t.MatMul(in[0], t.Param(all))}
		}, all),
	}
	split := []nn.Layer{
		nn.Func("left", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{in[0], t.MatMul(in[0], t.Param(left))}
		}, left),
		nn.Func("right", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{t.Concat(in[1], t.MatMul(in[0], t.Param(right)))}
		}, right),
	}
	x, y := nn.Tensor{Shape: []int{examples, width}}, nn.Tensor{Shape: []int{examples, width}}
	for i := range examples * width {
		x.F32, y.F32 = append(x.F32, float32(math.Cos(float64(i)))), append(y.F32, float32(i%7))
	}
	batch := nn.Batch{Inputs: []nn.Tensor{x}, Targets: []nn.Tensor{y}, Count: examples}
	open := func(layers []nn.Layer, capacity int64) (*Trainer, error) {
		p := Pipeline{Layers: layers, Loss: nn.MeanSquaredError{}, Numerics: Numerics{Seed: 1, Optimizer: nn.SGD{Momentum: 0.9}, LR: nn.ConstantLR(0.01)}, Partitions: len(layers), MicroBatches: 2}
		if capacity > 0 {
			p.Devices = []Device{{Capacity: capacity}}
		}
		tr, err := p.Open(InputOf(batch))
		if err == nil {
			t.Cleanup(func() { tr.Close() })
		}
		return tr, err
	}
	train := func(tr *Trainer, err error) (weights []NamedWeights) {
		testkit.NoError(t, err)
		for range 3 {
			stepped(t, tr, batch)
		}
		return tr.Weights()
	}
	unlimited := must(open(split, 0))(t)
	var fits int64
	for _, plan := range unlimited.Plans() {
		fits = max(fits, plan.Peak)
	}
	var oom *OutOfMemoryError
	if _, err := open(whole, fits); !errors.As(err, &oom) {
		t.Fatalf("the whole product on a device with %d bytes: %v, want out of memory", fits, err)
	}
	want, got := train(open(whole, 0)), train(open(split, fits))
	var joined []float32
	for row := range width {
		for _, w := range got {
			joined = append(joined, w.Data[row*width/2:(row+1)*width/2]...)
		}
	}
	before := make([]float32, width*width)
	all.Init(nil, nil, before)
	if !slices.Equal(joined, want[0].Data) || slices.Equal(joined, before) {
		t.Error("the halves end with other bits than the whole")
	}
}
