package gpipe_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/transport"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// tokens is a mini-batch of 8 sequences to learn by heart.
func tokens() nn.Batch {
	const n, t = 8, 6
	ids, next := make([]int32, n*t), make([]int32, n*t)
	for i := range ids {
		ids[i], next[i] = int32(i*i%11), int32((i+1)*(i+1)%11)
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{n, t}, I32: ids}},
		Targets: []nn.Tensor{{Shape: []int{n, t}, I32: next}},
		Count:   n * t,
	}
}

// must ends an example at an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A network is layers, a number of partitions and a number of micro-batches.
// However it is cut, the weights come out with the same bits.
func ExamplePipeline() {
	hash := map[string]bool{}
	for _, k := range []int{1, 2, 4} {
		layers := must(transformer.LM(transformer.Config{Layers: 4, Dim: 16, FeedForward: 32, Heads: 2, Vocab: 11, SeqLen: 6}))
		batch := tokens()
		trainer := must(gpipe.Pipeline{
			Layers: layers, Loss: nn.CrossEntropy{},
			Partitions: k, MicroBatches: 4,
			Numerics: gpipe.Numerics{Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01), ClipNorm: 1},
		}.Open(gpipe.InputOf(batch)))
		var first, last float64
		for step := range 30 {
			r := must(trainer.Step(context.Background(), batch))
			if last = r.Loss; step == 0 {
				first = r.Loss
			}
		}
		sizes, _ := trainer.Sizes()
		fmt.Printf("K=%d layers %v: learns: %v\n", k, sizes, last < first/2)
		hash[trainer.Hash()] = true
		trainer.Close()
	}
	fmt.Println("different weights:", len(hash))
	// Output:
	// K=1 layers [6]: learns: true
	// K=2 layers [3 3]: learns: true
	// K=4 layers [2 1 1 2]: learns: true
	// different weights: 1
}

// Modelled devices plan and time the same programs without computing anything.
func ExamplePipeline_Simulate() {
	layers := must(transformer.LM(transformer.Config{Layers: 48, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024}))
	accelerator := must(accelerator.Named("tpuv3"))
	example := nn.Tensor{Shape: []int{32, 1024}, I32: make([]int32, 32*1024)}
	s := must(gpipe.Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 4, MicroBatches: 32,
		Devices: []gpipe.Device{gpipe.DeviceOf(accelerator)},
	}.Simulate(gpipe.InputOf(nn.Batch{Inputs: []nn.Tensor{example}, Targets: []nn.Tensor{example}, Count: 32 * 1024}), gpipe.Modelling{DType: graph.BF16}))
	fmt.Println("layers of each partition:", s.Sizes)
	fmt.Println("the bubble is less than a tenth:", s.Parts.Bubble < s.Parts.Step/10)
	// Output:
	// layers of each partition: [12 13 13 12]
	// the bubble is less than a tenth: true
}

// residual is a user's own layer: y = x + relu(x W). It needs only a forward function
// and a list of parameters; the backward function is derived.
type residual struct {
	name  string
	dense *nn.Dense
}

func (r *residual) Name() string        { return r.name }
func (r *residual) Params() []*nn.Param { return r.dense.Params() }

func (r *residual) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{t.Add(in[0], t.ReLU(r.dense.Forward(t, in...)[0]))}
}

// A network is described from its shapes alone.
func ExamplePipeline_Describe() {
	var layers []nn.Layer
	for i := range 3 {
		layers = append(layers, &residual{fmt.Sprint("layer", i+1), nn.NewDense("dense", nn.DenseConfig{In: 8, Out: 8, NoBias: true})})
	}
	layers = append(layers, nn.Sequential("classifier", nn.NewDense("", nn.DenseConfig{In: 8, Out: 3})))
	d := must(gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 2}.Describe(gpipe.Input{
		Examples: 16,
		Inputs:   []graph.Type{{Shape: graph.Shape{8}, DType: graph.F32}},
		Targets:  []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}},
	}))
	for _, l := range d.Layers {
		fmt.Println(l.Name, l.Params, "parameters,", l.FLOPs, "FLOPs an example,", l.OutShape[0])
	}
	// Output:
	// layer1 64 parameters, 128 FLOPs an example, (8)
	// layer2 64 parameters, 128 FLOPs an example, (8)
	// layer3 64 parameters, 128 FLOPs an example, (8)
	// classifier 27 parameters, 48 FLOPs an example, (3)
}

// opened is a small language model on two stages, with what change adds to it.
func opened(vocabulary int, change func(*gpipe.Pipeline)) *gpipe.Trainer {
	layers := must(transformer.LM(transformer.Config{Layers: 2, Dim: 16, FeedForward: 32, Heads: 2, Vocab: vocabulary, SeqLen: 6}))
	p := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 2, MicroBatches: 4, Numerics: gpipe.Numerics{LR: nn.ConstantLR(0.1)}}
	if change != nil {
		change(&p)
	}
	return must(p.Open(gpipe.InputOf(tokens())))
}

// Gradients can be read before an update and after it, by the parameters' paths.
func ExampleTrainer_Gradients() {
	trainer := opened(11, func(p *gpipe.Pipeline) { p.ClipNorm = 0.5 })
	defer trainer.Close()
	r := must(trainer.Differentiate(context.Background(), tokens()))
	for _, g := range trainer.Gradients() {
		if g.Path == "softmax/bias" {
			fmt.Println(g.Path, g.Shape, "has a gradient:", g.Data[0] != 0)
		}
	}
	fmt.Println("steps:", trainer.Steps(), "clipped:", r.Clipping < 1)
	// Output:
	// softmax/bias [11] has a gradient: true
	// steps: 0 clipped: true
}

// Fine-tuning: what fits another vocabulary is loaded, and what was loaded learns slowly
// or not at all.
func ExampleTrainer_LoadPart() {
	file := filepath.Join(os.TempDir(), fmt.Sprint("gpipe-example-", os.Getpid(), ".safetensors"))
	defer os.Remove(file)
	first := opened(11, nil)
	defer first.Close()
	if err := first.Save(file, nil); err != nil {
		log.Fatal(err)
	}
	tuned := opened(13, func(p *gpipe.Pipeline) {
		p.Rates = []gpipe.Rate{{Path: "layer1", Factor: 0}, {Path: "layer*/attention", Factor: 0.1}}
	})
	defer tuned.Close()
	left := must(tuned.LoadPart(file))
	fmt.Println("not loaded:", left.Network)
	fmt.Println("not used:", left.File)
	before := map[string]float32{}
	for _, w := range tuned.Weights() {
		before[w.Path] = w.Data[0]
	}
	must(tuned.Step(context.Background(), tokens()))
	moved := map[bool]int{}
	for _, w := range tuned.Weights() {
		if w.Path == "layer1/attention/qkv/weight" || w.Path == "layer2/attention/qkv/weight" {
			moved[w.Data[0] != before[w.Path]]++
		}
	}
	fmt.Println("frozen:", moved[false], "learning:", moved[true])
	// Output:
	// not loaded: [embedding/table [13 16] softmax/weight [13 16] softmax/bias [13]]
	// not used: [embedding/table [11 16] softmax/weight [11 16] softmax/bias [11]]
	// frozen: 1 learning: 1
}

// A schedule of your own is a function that returns the stages' lists: here each
// micro-batch is finished before the next one starts. The bits are the same as with every other order.
func ExamplePipeline_tasks() {
	hash := map[string]bool{}
	for _, tasks := range []func(stages, micro int) [][]schedule.Task{nil, func(stages, micro int) [][]schedule.Task {
		var list []schedule.Task
		for m := range micro {
			list = append(list, schedule.Task{Kind: schedule.Forward, Micro: m, Keep: true}, schedule.Task{Kind: schedule.Backward, Micro: m})
		}
		return slices.Repeat([][]schedule.Task{list}, stages)
	}} {
		trainer := opened(11, func(p *gpipe.Pipeline) { p.Tasks = tasks })
		r := must(trainer.Step(context.Background(), tokens()))
		fmt.Println(r.Times.Lists[0])
		hash[trainer.Hash()] = true
		trainer.Close()
	}
	fmt.Println("different weights:", len(hash))
	// Output:
	// [F0 F1 F2 F3 R0 B0 R1 B1 R2 B2 R3 B3]
	// [F0 B0 F1 B1 F2 B2 F3 B3]
	// different weights: 1
}

// counting is a transport that counts what stages send each other. One of your own that
// connects processes must pass the cases of package transporttest.
type counting struct {
	transport.Transport
	bytes *atomic.Int64
}

func (c counting) Begin() transport.Session { return counted{c.Transport.Begin(), c.bytes} }

type counted struct {
	transport.Session
	bytes *atomic.Int64
}

func (c counted) Send(ctx context.Context, to transport.Route, tensors [][]float32) error {
	for _, t := range tensors {
		c.bytes.Add(int64(4 * len(t)))
	}
	return c.Session.Send(ctx, to, tensors)
}

// All that stages exchange goes through the pipeline's transport.
func ExamplePipeline_transport() {
	var bytes atomic.Int64
	trainer := opened(11, func(p *gpipe.Pipeline) { p.Transport = counting{transport.InProcess(), &bytes} })
	defer trainer.Close()
	must(trainer.Step(context.Background(), tokens()))
	fmt.Println("bytes forward and back:", bytes.Load(), "=", 2*4*8*6*16)
	// Output:
	// bytes forward and back: 6144 = 6144
}

// A profile says where the time of steps goes. Its rows add up to the steps.
func ExampleTrainer_Profile() {
	trainer := opened(11, nil)
	defer trainer.Close()
	profile := trainer.Profile()
	for range 3 {
		must(trainer.Step(context.Background(), tokens()))
	}
	profile.Stop()
	calls := map[string]float64{}
	var share float64
	for _, row := range profile.Rows() {
		share += row.Share
		if row.Op == "attention" || row.Op == "attention-grad" {
			calls[row.Task+" "+row.Op] = row.Calls
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		fmt.Println(name, calls[name], "times a step")
	}
	fmt.Printf("all rows: %.0f%%\n", 100*share)
	// Output:
	// backward attention-grad 8 times a step
	// forward attention 8 times a step
	// recompute attention 8 times a step
	// all rows: 100%
}
