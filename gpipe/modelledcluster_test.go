package gpipe

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// The language model of these tests, of one of T parts.
const (
	clusterLayers, clusterDim, clusterHeads, clusterSeq, clusterVocab = 4, 64, 8, 32, 96
)

func clusterLM(t *testing.T, p nn.Parts) []nn.Layer {
	t.Helper()
	return must(transformer.LM(transformer.Config{
		Layers: clusterLayers, Dim: clusterDim, FeedForward: 4 * clusterDim, Heads: clusterHeads, Vocab: clusterVocab, SeqLen: clusterSeq,
		Activation: nn.GELU, Dropout: 0.1, FinalNorm: true, Parts: p,
	}))(t)
}

func clusterInput(examples int) Input {
	ids := []graph.Type{{Shape: graph.Shape{clusterSeq}, DType: graph.I32}}
	return Input{Examples: examples, Inputs: ids, Targets: ids}
}

// onCluster simulates the model on an accelerator that comes with the program.
func onCluster(t *testing.T, device string, p Pipeline, examples int, how Parallel) (*Simulation, error) {
	t.Helper()
	a := must(accelerator.Named(device))(t)
	p.Layers, p.Loss, p.Optimizer = clusterLM(t, nn.Parts{Count: how.Tensor, Sequence: how.SequenceParallel}), nn.CrossEntropy{}, nn.Adam{}
	p.Devices = []Device{DeviceOf(a)}
	return p.Simulate(clusterInput(examples), Modelling{DType: graph.BF16, Accounting: FullAccounting, Parallel: how})
}

// partLayer compiles one Transformer layer of a part.
func partLayer(t *testing.T, p nn.Parts, storage program.Storage) *program.Stage {
	t.Helper()
	layers := clusterLM(t, p)
	shape := graph.Shape{2, clusterSeq, clusterDim}
	if p.Sequence {
		shape[1] /= p.Count
	}
	tr := trace.Layers(layers[1:2], 1, nil, []graph.Type{{Shape: shape, DType: graph.F32}}, nil, true)
	return program.Compile(tr.Function, []bool{true}, true, 1, storage)
}

// T parts together make the products of the whole layer, and have its parameters, as far as
// they divide them; each part has the norms and the biases of results.
func TestPartsAreTheWhole(t *testing.T) {
	whole := partLayer(t, nn.Parts{}, program.Storage{})
	divided := func(layers []nn.Layer) (own, alike int64) {
		for _, p := range layers[1].Params() {
			if strings.Contains(p.Name, "norm") || strings.HasSuffix(p.Name, "out/bias") {
				alike += int64(p.Shape.Elems())
			} else {
				own += int64(p.Shape.Elems())
			}
		}
		return own, alike
	}
	ownWhole, alikeWhole := divided(clusterLM(t, nn.Parts{}))
	for _, parts := range []nn.Parts{{Count: 2}, {Count: 8}, {Count: 4, Sequence: true}} {
		part, n := partLayer(t, parts, program.Storage{}), int64(parts.Count)
		for _, of := range [][2]*program.Program{{whole.Forward, part.Forward}, {whole.Backward, part.Backward}} {
			testkit.Equal(t, n*of[1].FLOPs(), of[0].FLOPs(), "%+v, %s", parts, of[0].Name)
		}
		if own, alike := divided(clusterLM(t, parts)); n*own != ownWhole || alike != alikeWhole {
			t.Errorf("%+v: %d parameters divided, %d alike: want %d/T and %d", parts, own, alike, ownWhole, alikeWhole)
		}
	}
}

// A layer has two all-reduces of its activations forward, and two backward (Shoeybi et al., section
// 3); with sequence parallelism each is a gather and a scatter of the same bytes (Korthikanti et
// al., section 4.2.2), and the backward gathers two inputs again.
func TestPartsExchangeActivations(t *testing.T) {
	const bytes = 2 * 2 * clusterSeq * clusterDim // of two examples
	count := func(p *program.Program) map[program.Collective]int {
		all := map[program.Collective]int{}
		for i := range p.Instrs {
			what, parts, moved, _ := p.Instrs[i].Collective()
			if what == program.NoCollective {
				continue
			}
			if all[what]++; moved != bytes || parts != 4 {
				t.Errorf("%s, %s: %d bytes in %d parts, want %d in 4", p.Name, p.Instrs[i].Op, moved, parts, bytes)
			}
		}
		return all
	}
	for _, test := range []struct {
		parts             nn.Parts
		forward, backward map[program.Collective]int
	}{
		{nn.Parts{Count: 4}, map[program.Collective]int{program.AllReduce: 2}, map[program.Collective]int{program.AllReduce: 2}},
		{nn.Parts{Count: 4, Sequence: true}, map[program.Collective]int{program.AllGather: 2, program.ReduceScatter: 2},
			map[program.Collective]int{program.AllGather: 2, program.ReduceScatterAndGather: 2}},
	} {
		st := partLayer(t, test.parts, program.Storage{DType: graph.BF16, NoPacking: true})
		for _, of := range []struct {
			p    *program.Program
			want map[program.Collective]int
		}{{st.Forward, test.forward}, {st.Keep, test.forward}, {st.Backward, test.backward}} {
			got := count(of.p)
			for what, n := range of.want {
				if got[what] != n || len(got) != len(of.want) {
					t.Errorf("%+v, %s: %v, want %v", test.parts, of.p.Name, got, of.want)
				}
			}
		}
	}
}

// What a layer keeps of a micro-batch is what Korthikanti et al. count (Table 2), in bytes of two an
// element: with s tokens, b examples, width h and a heads, sbh (10 + 24/t + 5 a s/(h t)) of T parts,
// and sbh/t (34 + 5 a s/h) with sequence parallelism; without the scores, selective recomputation.
// Beside that are float32 statistics: two of each norm's rows, and one of each row of scores.
func TestLayersKeepWhatIsPublished(t *testing.T) {
	const sbh = clusterSeq * clusterDim // of one example
	const scores = 5 * clusterHeads * clusterSeq * clusterSeq
	for _, test := range []struct {
		how  Parallel
		want float64
	}{
		{Parallel{Tensor: 1, Recompute: RecomputeNone}, 34*sbh + scores},
		{Parallel{Tensor: 1, Recompute: RecomputeSelective}, 34 * sbh},
		{Parallel{Tensor: 4, Recompute: RecomputeNone}, 10*sbh + (24*sbh+scores)/4},
		{Parallel{Tensor: 4, SequenceParallel: true, Recompute: RecomputeNone}, (34*sbh + scores) / 4},
		{Parallel{Tensor: 4, SequenceParallel: true, Recompute: RecomputeSelective}, 34 * sbh / 4},
		{Parallel{Tensor: 4, SequenceParallel: true, Recompute: RecomputeFull}, 2 * sbh / 4},
	} {
		test.how.Attention, test.how.DropScores = UnfusedAttention, true
		a := must(accelerator.Named("a100-80g"))(t)
		p := Pipeline{Layers: clusterLM(t, nn.Parts{Count: test.how.Tensor, Sequence: test.how.SequenceParallel}), Loss: nn.CrossEntropy{}, Devices: []Device{DeviceOf(a)}}
		c := must(p.cluster(clusterInput(1), Modelling{DType: graph.BF16, Parallel: test.how}))(t)
		got := float64(c.keeps(2))
		most := test.want + 2*2*4*clusterSeq + 64*8 // statistics of two norms, and alignment
		if test.how.Recompute == RecomputeSelective {
			most += 4 * clusterHeads * clusterSeq / float64(test.how.Tensor)
		}
		if got < test.want || got > most {
			t.Errorf("%+v keeps %v bytes, want %v, and statistics up to %v", test.how, got, test.want, most)
		}
	}
}

// Bytes of a parameter, as Megatron-LM's manual counts them: with d replicas 16, 18 and 16, and
// where they divide the optimiser's state 8+8/d, 6+12/d and 4+12/d, beside 4 in the update alone; ZeRO 2 and 3 divide gradients and
// weights as well (Rajbhandari et al., section 3).
func TestZeroDividesMemory(t *testing.T) {
	const d = 4
	var params int64
	for _, test := range []struct {
		precision            Precision
		weights, grads, rest float64
	}{{F32Weights, 4, 4, 8}, {BF16Weights, 2, 4, 12}, {FP16Weights, 2, 2, 12}} {
		for zero := range 4 {
			s := must(onCluster(t, "a100-80g", Pipeline{Replication: Replication{Replicas: d}}, 8, Parallel{Recompute: RecomputeNone, Zero: zero, Precision: test.precision}))(t)
			if params == 0 {
				params = s.Devices[0].Memory.Weights / 4
				if want := nn.CountParams(clusterLM(t, nn.Parts{})); params != want {
					t.Fatalf("%d parameters, want %d", params, want)
				}
			}
			share := func(from int) float64 {
				if zero >= from {
					return 1. / d
				}
				return 1
			}
			m, n := s.Devices[0].Memory, float64(params)
			for what, of := range map[string][2]float64{
				"weights": {float64(m.Weights), test.weights * share(3)}, "gradients": {float64(m.Gradients), test.grads * share(2)}, "state": {float64(m.State), test.rest * share(1)},
			} {
				if math.Abs(of[0]-of[1]*n) > 1 {
					t.Errorf("%v, ZeRO %d: %v bytes of %s, want %v a parameter", test.precision, zero, of[0], what, of[1])
				}
			}
			testkit.Equal(t, m.Sum(), s.Devices[0].PeakBytes, "a peak of %d, and its kinds are", s.Devices[0].PeakBytes)
		}
	}
}

// Scores that are computed again are in the workspace of one layer, with their dropout.
func TestScoresAreComputedInTheWorkspace(t *testing.T) {
	how := Parallel{Recompute: RecomputeSelective, Attention: UnfusedAttention, DropScores: true}
	unfused := must(onCluster(t, "a100-80g", Pipeline{}, 2, how))(t)
	how.Attention = FlashAttention
	flash := must(onCluster(t, "a100-80g", Pipeline{}, 2, how))(t)
	got := unfused.Devices[0].Memory.Workspace - flash.Devices[0].Memory.Workspace
	if want := int64(2 * 5 * clusterHeads * clusterSeq * clusterSeq); got > want || got < want/2 { // the fullest layer may be another
		t.Errorf("%d bytes more of workspace than flash attention, want up to %d", got, want)
	}
}

// A cluster without any of its axes computes as a pipeline does: what is left out of a layer by
// compiling it alone (what is fused over its edges, a share of this small network) is all that differs;
// on a GPU, too, where the host that starts operations limits this network.
func TestClusterComputesAsAPipeline(t *testing.T) {
	for i, s := range []schedule.Schedule{schedule.GPipe, schedule.OneFOneB, schedule.Interleaved, schedule.ZBH1, schedule.GPipe, schedule.ZBH1} {
		device := "tpuv3"
		if i > 3 {
			device = "a100-80g"
		}
		p := Pipeline{Partitions: 2, MicroBatches: 4, Schedule: s, Checkpoint: schedule.Never}
		p.Balance = []int{3, 3}
		if s == schedule.Interleaved {
			p.Balance = []int{2, 1, 1, 2}
		}
		whole := must(onCluster(t, device, p, 8, Parallel{}))(t)
		cluster := must(onCluster(t, device, p, 8, Parallel{Recompute: RecomputeNone}))(t)
		if got, want := cluster.Parts.Computation, whole.Parts.Computation; math.Abs(got/want-1) > 0.05 {
			t.Errorf("%v on %s: computes %v, as a pipeline %v", s, device, got, want)
		}
		if sum := cluster.Step.Sum(); math.Abs(sum/cluster.Seconds-1) > 1e-9 {
			t.Errorf("%v: parts of a step are %v, and the step %v", s, sum, cluster.Seconds)
		}
	}
}

// One part of each stage is none, to the digit.
func TestOnePartIsNone(t *testing.T) {
	p := Pipeline{Partitions: 2, MicroBatches: 4, Schedule: schedule.OneFOneB}
	none := must(onCluster(t, "a100-80g", p, 8, Parallel{}))(t)
	one := must(onCluster(t, "a100-80g", p, 8, Parallel{Tensor: 1}))(t)
	if none.Seconds != one.Seconds || none.Parts != one.Parts || none.Devices[0].PeakBytes != one.Devices[0].PeakBytes {
		t.Errorf("%v s and %d bytes, without %v and %d", one.Seconds, one.Devices[0].PeakBytes, none.Seconds, none.Devices[0].PeakBytes)
	}
}

// ZeRO 3 exposes the first gather, the last sum, and what does not fit beside computing.
func TestGathersRunBesideComputing(t *testing.T) {
	near := clock.Link{Bandwidth: 1e12}
	how := Parallel{Recompute: RecomputeNone, Zero: 3, Near: near, NodeDevices: 2}
	p := Pipeline{Replication: Replication{Replicas: 2}}
	fast := must(onCluster(t, "a100-80g", p, 8, how))(t)
	how.Near.Bandwidth = 1e8
	slow := must(onCluster(t, "a100-80g", p, 8, how))(t)
	if fast.Step.Replicas >= slow.Step.Replicas/100 {
		t.Errorf("exposes %v s with a fast link, %v with a slow one", fast.Step.Replicas, slow.Step.Replicas)
	}
	bytes := float64(4 * nn.CountParams(clusterLM(t, nn.Parts{})))
	link := 1e8 * must(accelerator.Named("a100-80g"))(t).Share("link")
	// Two gathers of all weights and a sum of all gradients, half of each from the other replica.
	if most := 3 * bytes / 2 / link; slow.Step.Replicas > most+1e-3 || slow.Step.Replicas < most-slow.Step.Computing {
		t.Errorf("exposes %v s, want %v without what fits beside %v of computing", slow.Step.Replicas, most, slow.Step.Computing)
	}
	testkit.Equal(t, slow.ReduceSeconds, slow.Step.Replicas)
	// ZeRO 2 adds up the gradients of each micro-batch, since its memory holds no more of them.
	how.Zero, p.MicroBatches = 2, 4
	two := must(onCluster(t, "a100-80g", p, 8, how))(t)
	if want := (4 + 1) * bytes / 2 / link; math.Abs(two.Step.Replicas-want) > 1e-3 {
		t.Errorf("ZeRO 2 adds up for %v s, want %v", two.Step.Replicas, want)
	}
}

// Full recomputation runs each layer but the first and the last once more, in its backward.
func TestFullRecomputationRunsLayersAgain(t *testing.T) {
	p := Pipeline{MicroBatches: 2}
	none := must(onCluster(t, "a100-80g", p, 4, Parallel{Recompute: RecomputeNone, Attention: FlashAttention}))(t)
	full := must(onCluster(t, "a100-80g", p, 4, Parallel{Recompute: RecomputeFull, Attention: FlashAttention}))(t)
	if got, want := full.Step.Computing-none.Step.Computing, full.Step.Recomputed; want <= 0 || math.Abs(got/want-1) > 1e-6 {
		t.Errorf("%v more to compute, want what is computed again, %v", got, want)
	}
	a := must(accelerator.Named("a100-80g"))(t)
	p = Pipeline{Layers: clusterLM(t, nn.Parts{}), Loss: nn.CrossEntropy{}, Devices: []Device{DeviceOf(a)}}
	c := must(p.cluster(clusterInput(2), Modelling{DType: graph.BF16, Parallel: Parallel{Recompute: RecomputeFull}}))(t)
	for i := range c.layers {
		testkit.Equal(t, c.recomputed(i).Seconds() > 0, (i > 0 && i < len(c.layers)-1), "layer %d of %d is computed again", i, len(c.layers))
	}
	if got, none := full.Devices[0].Memory.Activations, none.Devices[0].Memory.Activations; got >= none {
		t.Errorf("keeps %d bytes, without recomputation %d: want less", got, none)
	}
}

// What R and the parts of a split B send counts as sums of the T parts, as in F and B.
func TestSumsOfEveryTaskCount(t *testing.T) {
	sums := func(s schedule.Schedule, c schedule.Checkpoint, overlap bool) float64 {
		p := Pipeline{MicroBatches: 2, Schedule: s, Checkpoint: c}
		return must(onCluster(t, "a100-80g", p, 4, Parallel{Tensor: 2, Overlap: overlap}))(t).Step.Tensor
	}
	plain, split := sums(schedule.GPipe, schedule.Never, false), sums(schedule.ZBH1, schedule.Never, true)
	if again := sums(schedule.GPipe, schedule.Always, false); again < 1.4*plain {
		t.Errorf("%v s with F run again, without %v: want about half as much more", again, plain)
	}
	if math.Abs(split/plain-1) > 1e-9 {
		t.Errorf("%v s of sums with no product for weights beside them, want %v", split, plain)
	}
}

// A transfer or a sum takes the link that its ends have: near in a node, far between nodes.
func TestPlacementDecidesLinks(t *testing.T) {
	near, far := clock.Link{Bandwidth: 1e9}, clock.Link{Bandwidth: 1e8}
	for _, test := range []struct {
		order   Order
		node    int
		nearHop bool // between stages
		sum     float64
	}{
		// T 2, R 2, K 2: replicas of a stage are 2 apart and stages 4, or stages 2 and replicas 4.
		{TensorDataPipeline, 8, true, 1},
		{TensorDataPipeline, 4, false, 1},
		{TensorDataPipeline, 2, false, 10},
		{TensorPipelineData, 4, true, 10},
		{TensorPipelineData, 8, true, 1},
	} {
		c := &clusterStep{Pipeline: Pipeline{Partitions: 2}, Parallel: Parallel{Order: test.order}, replicas: 2, parts: 2, node: test.node, near: near, far: far}
		want := far
		if test.nearHop {
			want = near
		}
		testkit.Equal(t, c.hop(place.Place{Stage: 0}, place.Place{Stage: 1}), want, "%v in nodes of %d: stages have", test.order, test.node)
		reduce, gather := c.among(1, 1e9)
		if got := reduce + gather; math.Abs(got-test.sum) > 1e-9 {
			t.Errorf("%v in nodes of %d: replicas add up in %v s, want %v", test.order, test.node, got, test.sum)
		}
	}
	// 4 replicas in two nodes: 3/4... of the data within the node, then half of it between nodes.
	c := &clusterStep{Pipeline: Pipeline{Partitions: 1}, replicas: 4, parts: 1, node: 2, near: near, far: far}
	reduce, _ := c.among(0, 1e9)
	if want := 0.5 + 0.5*0.5e9/1e8; math.Abs(reduce-want) > 1e-9 {
		t.Errorf("a reduction takes %v s, want %v: near, and half of the data far", reduce, want)
	}
	// Each of T parts sends its share, and they gather it near.
	c = &clusterStep{Pipeline: Pipeline{Partitions: 2}, Parallel: Parallel{Scatter: true}, replicas: 1, parts: 2, node: 2, near: near, far: far}
	if got, want := 1e9/c.hop(place.Place{}, place.Place{Stage: 1}).Bandwidth, 0.5e9/1e8+0.5; math.Abs(got-want) > 1e-9 {
		t.Errorf("a boundary of 1 GB takes %v s in shares, want %v", got, want)
	}
}

// Devices that wait for transfers lose what the others hide, and nothing where nothing can be hidden.
func TestAwaitedTransfers(t *testing.T) {
	step := func(micro int, await bool) *Simulation {
		p := Pipeline{Partitions: 2, MicroBatches: micro, Schedule: schedule.OneFOneB, Checkpoint: schedule.Never}
		how := Parallel{Precision: BF16Weights, AwaitTransfers: await, Near: clock.Link{Bandwidth: 1e8}}
		return must(onCluster(t, "a100-80g", p, 2*micro, how))(t)
	}
	if one, same := step(1, true), step(1, false); math.Abs(one.Seconds/same.Seconds-1) > 1e-9 {
		t.Errorf("one micro-batch: %v s, and %v s without waiting", one.Seconds, same.Seconds)
	}
	waits, hides := step(8, true), step(8, false)
	if waits.Seconds <= hides.Seconds || waits.Step.Pipeline <= hides.Step.Pipeline || math.Abs(waits.Step.Computing/hides.Step.Computing-1) > 1e-9 {
		t.Errorf("eight: %v s of %+v, and %v s of %+v without waiting", waits.Seconds, waits.Step, hides.Seconds, hides.Step)
	}
	// Over links that take no time there is nothing to wait for.
	free := *must(accelerator.Named("a100-80g"))(t)
	free.Link, free.Far = clock.Link{}, accelerator.FarLink{}
	p := Pipeline{
		Layers: clusterLM(t, nn.Parts{}), Loss: nn.CrossEntropy{}, Devices: []Device{DeviceOf(&free)},
		Partitions: 2, MicroBatches: 8, Schedule: schedule.OneFOneB, Checkpoint: schedule.Never,
	}
	var seconds []float64
	for _, await := range []bool{true, false} {
		how := Modelling{DType: graph.BF16, Accounting: FullAccounting, Parallel: Parallel{Precision: BF16Weights, AwaitTransfers: await}}
		seconds = append(seconds, must(p.Simulate(clusterInput(16), how))(t).Seconds)
	}
	testkit.Equal(t, seconds[0], seconds[1], "waiting for nothing")
}

// What no cluster has is refused in one line.
func TestClusterRefuses(t *testing.T) {
	for _, test := range []struct {
		p    Pipeline
		how  Parallel
		want string
	}{
		{Pipeline{}, Parallel{Tensor: 3}, "3 parts do not divide Heads 8: want a divisor"},
		{Pipeline{}, Parallel{Tensor: 8, NodeDevices: 4}, "8 parts of each stage on nodes of 4 devices: want a divisor of 4"},
		{Pipeline{}, Parallel{SequenceParallel: true}, "sequence parallelism of 1 part: want tensor parallelism of 2 or more"},
		{Pipeline{}, Parallel{Zero: 4}, "ZeRO 4: want 0, 1, 2 or 3"},
		{Pipeline{MicroBatches: 3}, Parallel{Zero: 2}, "a mini-batch of 8 examples for 1 replicas of 3 micro-batches: want a multiple of 3"},
		{Pipeline{}, Parallel{Precision: FP8Products}, "a100-80g has no rate for products in 8 bits"},
		{Pipeline{Checkpoint: schedule.ExceptLast}, Parallel{Zero: 2}, "checkpoint except-last on a cluster"},
		{Pipeline{}, Parallel{Attention: UnfusedAttention}, "unfused attention on tpuv3, which has no kernels: want ours"},
		{Pipeline{}, Parallel{Attention: FlashAttention}, "flash attention on tpuv3, which has no kernels: want ours"},
	} {
		var err error
		device := "a100-80g"
		if test.how.Attention != OurAttention {
			device = "tpuv3"
		}
		if test.how.Tensor == 3 {
			_, err = transformer.LM(transformer.Config{Layers: 1, Dim: 64, FeedForward: 64, Heads: 8, Vocab: 96, SeqLen: 8, Parts: nn.Parts{Count: 3}})
		} else {
			_, err = onCluster(t, device, test.p, 8, test.how)
		}
		testkit.Fails(t, err, test.want)
	}
}

// A tied table's gradients cross between the first and the last stage, in both directions. A device
// with both has one table.
func TestTiedTablesExchangeOnClusters(t *testing.T) {
	layers := must(transformer.LM(transformer.Config{Layers: 2, Dim: 64, FeedForward: 64, Heads: 8, Vocab: 96, SeqLen: 32, Tied: true}))(t)
	a := must(accelerator.Named("a100-80g"))(t)
	p := Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Partitions: 2, Devices: []Device{DeviceOf(a)}}
	how := Modelling{DType: graph.BF16, Parallel: Parallel{Precision: BF16Weights}}
	testkit.Refused(p.Estimate(clusterInput(2), how))(t, "want Simulate")
	all := must(p.cluster(clusterInput(2), how))(t).exchanges()
	if len(all) != 2 || all[0].Bytes != plan.FloatBytes*96*64 || all[0].From.Stage != all[1].To.Stage || all[0].From.Stage == all[1].From.Stage {
		t.Errorf("%+v, want the table's gradient each way", all)
	}
	p.Partitions, p.Schedule, p.Checkpoint = 1, schedule.ZBV, schedule.Never
	testkit.Equal(t, must(p.Simulate(clusterInput(2), how))(t).Devices[0].Memory.Weights, 2*nn.CountParams(layers), "weights of both ends")
}
