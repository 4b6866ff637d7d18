package simulate

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// measured simulates a language model of 6 layers.
func measured(t *testing.T, setup train.Setup, batch int) *Simulation {
	t.Helper()
	return testkit.Must(Simulating{
		Model:       train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Vocab: 500, Seq: 32},
		Accelerator: "tpuv3", Batch: batch, Optimizer: "adam", DType: graph.BF16, Setup: setup, Tokens: 3e9,
	}.Run(t.Context()))(t)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

// Metrics equal the closed forms that others print.
//
// Megatron's count of a step's operations (Narayanan et al. 2021, equation 3) is of hardware
// FLOPs, but that here the softmax is recomputed with the last piece: 2 B s H V operations more.
// Without recomputation it is 72 B s L H^2 (1 + s/6H + V/12LH) (Korthikanti et al. 2022, equation 7).
// MFU is PaLM's (Chowdhery et al. 2022, appendix B): tokens/s (6 N + 12 L H s) / peak, with the N
// parameters of products: embeddings are none. Causal attention is half of the second term.
func TestMetricsAreThoseOfClosedForms(t *testing.T) {
	const (
		L, H, s, V, B = 6, 64, 32, 500, 16 // layers, width, tokens of an example, vocabulary, examples
		N             = L*12*H*H + H*V
		peak          = 61.5e12
		model         = 72. * B * s * L * H * H * (1 + s/(6.*H) + V/(12.*L*H))
		megatron      = 96. * B * s * L * H * H * (1 + s/(6.*H) + V/(16.*L*H))
		hardware      = megatron + 2*B*s*H*V
	)
	for _, test := range []struct {
		setup    train.Setup
		devices  float64
		hardware float64
	}{
		{train.Setup{Partitions: 1, MicroBatches: 1}, 1, hardware},
		{train.Setup{Partitions: 4, MicroBatches: 4}, 4, hardware},
		{train.Setup{Partitions: 2, MicroBatches: 4, Schedule: schedule.Interleaved, Chunks: 2}, 2, hardware},
		{train.Setup{Partitions: 2, MicroBatches: 2, Replicas: 2}, 4, hardware},
		{train.Setup{Partitions: 2, MicroBatches: 4, Checkpoint: schedule.Never}, 2, model},
	} {
		r := measured(t, test.setup, B)
		tokens := B * s / r.StepSeconds // a second
		for what, of := range map[string][2]float64{
			"accelerators": {float64(r.Accelerators), test.devices},
			"model FLOPs":  {r.ModelFLOPs, model}, "hardware FLOPs": {r.HardwareFLOPs, test.hardware},
			"MFU": {r.MFU, tokens / test.devices * (6*N + 12*L*H*s) / peak}, "causal MFU": {r.CausalMFU, tokens / test.devices * (6*N + 6*L*H*s) / peak},
			"HFU":      {r.HFU, test.hardware / r.StepSeconds / test.devices / peak},
			"TFLOP/s":  {r.TFLOPsPerDevice, model / r.StepSeconds / test.devices / 1e12},
			"tokens/s": {r.TokensPerSecond, tokens}, "a device": {r.TokensPerSecondPerDevice, tokens / test.devices},
			"days": {r.Days, 3e9 / tokens / 86400},
		} {
			testkit.Near(t, of[0], of[1], 1e-12*of[1], "%+v: %s", test.setup, what)
		}
	}
}

// On a cluster full recomputation is of all layers but embedding and softmax, as Megatron counts it, and
// selective of the core of attention: 4 B s^2 H operations a layer. T devices divide the work.
func TestMetricsOfClusters(t *testing.T) {
	const (
		L, H, s, V, B = 6, 64, 32, 512, 16
		model         = 72. * B * s * L * H * H * (1 + s/(6.*H) + V/(12.*L*H))
	)
	for recompute, want := range map[gpipe.Recompute]float64{
		gpipe.RecomputeNone: model, gpipe.RecomputeSelective: model + 4*B*s*s*H*L, gpipe.RecomputeFull: 96. * B * s * L * H * H * (1 + s/(6.*H) + V/(16.*L*H)),
	} {
		of := Simulating{
			Model:       train.Model{Name: train.LanguageModel, Layers: L, Dim: H, FF: 4 * H, Heads: 4, Vocab: V, Seq: s},
			Accelerator: "tpuv3", Batch: B, Optimizer: "adam", DType: graph.BF16, Setup: train.Setup{Partitions: 2, MicroBatches: 4, Replicas: 2},
		}
		of.Precision, of.Tensor, of.Recompute = gpipe.BF16Weights, 2, recompute
		r := testkit.Must(of.Run(t.Context()))(t)
		if r.Accelerators != 8 || !near(r.ModelFLOPs, model) || !near(r.HardwareFLOPs, want) || !near(r.TokensPerSecondPerDevice, B*s/r.StepSeconds/8) {
			t.Errorf("%v: %+v; want model FLOPs %v, hardware FLOPs %v", recompute, r.Metrics, model, want)
		}
	}
}

// Hardware FLOPs count the examples that are recomputed, of micro-batches of any size.
func TestHardwareFLOPsOfSomeMicroBatches(t *testing.T) {
	// Seven examples are 4 and 3 of two replicas, in micro-batches of 2 and 2, 2 and 1.
	r := measured(t, train.Setup{Partitions: 2, MicroBatches: 2, Replicas: 2, Checkpoint: schedule.ExceptLast}, 7)
	want := r.ModelFLOPs * (1 + (2+1)/7./3)
	testkit.Near(t, r.HardwareFLOPs, want, 1e-12*want)
}

// Images have no tokens.
func TestMetricsOfImages(t *testing.T) {
	r := testkit.Must(Simulating{
		Model: train.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}, Accelerator: "tpuv3", Batch: 8, Optimizer: "sgd", DType: graph.F32, Tokens: 1e6,
		Setup: train.Setup{Partitions: 2, MicroBatches: 1, Spatial: 2},
	}.Run(t.Context()))(t)
	if r.TokensPerSecond != 0 || r.Accelerators != 4 || !near(r.ExamplesPerSecondPerDevice, 8/r.StepSeconds/4) || r.CausalMFU != r.MFU || !near(r.Days, 1e6/(8/r.StepSeconds)/86400) {
		t.Errorf("%+v", r.Metrics)
	}
}
