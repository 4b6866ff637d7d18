package gpipe_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
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

// A network is layers, a number of partitions and a number of micro-batches.
// However it is cut, the weights come out with the same bits.
func ExamplePipeline() {
	hash := map[string]bool{}
	for _, k := range []int{1, 2, 4} {
		layers, err := transformer.LM(transformer.Config{Layers: 4, Dim: 16, FeedForward: 32, Heads: 2, Vocab: 11, SeqLen: 6})
		if err != nil {
			log.Fatal(err)
		}
		batch := tokens()
		trainer, err := gpipe.Pipeline{
			Layers: layers, Loss: nn.CrossEntropy{},
			Partitions: k, MicroBatches: 4,
			Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01), ClipNorm: 1,
		}.Open(gpipe.InputOf(batch))
		if err != nil {
			log.Fatal(err)
		}
		var first, last float64
		for step := range 30 {
			r, err := trainer.Step(context.Background(), batch)
			if err != nil {
				log.Fatal(err)
			}
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
	layers, err := transformer.LM(transformer.Config{Layers: 48, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024})
	if err != nil {
		log.Fatal(err)
	}
	accelerator, err := accelerator.Named("tpuv3")
	if err != nil {
		log.Fatal(err)
	}
	example := nn.Tensor{Shape: []int{32, 1024}, I32: make([]int32, 32*1024)}
	s, err := gpipe.Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 4, MicroBatches: 32,
		Devices: []gpipe.Device{gpipe.DeviceOf(accelerator)},
	}.Simulate(gpipe.InputOf(nn.Batch{Inputs: []nn.Tensor{example}, Targets: []nn.Tensor{example}, Count: 32 * 1024}), gpipe.Modelling{DType: graph.BF16})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("layers of each partition:", s.Sizes)
	fmt.Println("the bubble is less than a tenth:", s.Parts.Bubble < s.Parts.Step/10)
	// Output:
	// layers of each partition: [12 13 13 12]
	// the bubble is less than a tenth: true
}

// A step's timeline, drawn as the paper's Figure 2c.
func ExamplePipeline_timeline() {
	lists, err := schedule.Build(schedule.GPipe, 4, 4, schedule.Never, false)
	if err != nil {
		log.Fatal(err)
	}
	tl, err := timeline.Replay(lists, timeline.Costs{Task: func(place.Place, schedule.Task) float64 { return 1 }})
	if err != nil {
		log.Fatal(err)
	}
	if err := timeline.WriteText(os.Stdout, tl, 80); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 |...............F0   F1   F2   F3   B0   B1   B2   B3   ...............|
	// 2 |..........F0   F1   F2   F3   ..........B0   B1   B2   B3   ..........|
	// 1 |.....F0   F1   F2   F3   ....................B0   B1   B2   B3   .....|
	// 0 |F0   F1   F2   F3   ..............................B0   B1   B2   B3   |
	//    step 14 s  F forward  B backward  . idle
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
	d, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 2}.Describe(gpipe.Input{
		Examples: 16,
		Inputs:   []graph.Type{{Shape: graph.Shape{8}, DType: graph.F32}},
		Targets:  []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range d.Layers {
		fmt.Println(l.Name, l.Params, "parameters,", l.FLOPs, "FLOPs an example,", l.OutShape[0])
	}
	// Output:
	// layer1 64 parameters, 128 FLOPs an example, (8)
	// layer2 64 parameters, 128 FLOPs an example, (8)
	// layer3 64 parameters, 128 FLOPs an example, (8)
	// classifier 27 parameters, 48 FLOPs an example, (3)
}
