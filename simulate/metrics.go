package simulate

import (
	"gpipebench/gpipe"
)

// Metrics are what practitioners compare trainings by. With F the floating-point operations of
// the forward pass of a mini-batch, D the devices and t the seconds of a step:
//
//	model FLOPs     3 F, since the backward pass has two products for each of the forward pass
//	hardware FLOPs  3 F, and the forward pass of what is recomputed once more
//	MFU             model FLOPs / (t D peak)
//	causal MFU      the same with half of the products of causal attention
//	HFU             hardware FLOPs / (t D peak)
//
// F is 2 for each multiply-add of matrix products and convolutions: logits are in it, lookups of
// embeddings and element-wise operations are not, and attention counts in full, as in PaLM
// (Chowdhery et al. 2022, appendix B) and Megatron (Narayanan et al. 2021, section 5.1; Korthikanti
// et al. 2022, appendix A). The mask of causal attention hides about half of its products. The peak
// is the accelerator's for dense products of the activations' type, without sparsity, whatever
// share of it is reached. A step is computing, communication that nothing hides and the update;
// loading data and evaluation are not in it.
type Metrics struct {
	Accelerators int `json:"accelerators"` // D: R x K, each of S parts
	// Tokens are those that the network predicts; 0: its examples are images.
	TokensPerSecond            float64 `json:"tokens_per_second,omitempty"`
	TokensPerSecondPerDevice   float64 `json:"tokens_per_second_per_device,omitempty"`
	ExamplesPerSecondPerDevice float64 `json:"examples_per_second_per_device"`
	ModelFLOPs                 float64 `json:"model_flops"`                // of a step
	HardwareFLOPs              float64 `json:"hardware_flops"`             // of a step
	TFLOPsPerDevice            float64 `json:"tflops_per_device"`          // model FLOPs, in 1e12 a second
	HardwareTFLOPsPerDevice    float64 `json:"hardware_tflops_per_device"` // the same of hardware FLOPs
	PeakTFLOPs                 float64 `json:"peak_tflops"`                // of a device
	MFU                        float64 `json:"mfu"`
	CausalMFU                  float64 `json:"mfu_causal"`
	HFU                        float64 `json:"hfu"`
	Days                       float64 `json:"days,omitempty"` // for Simulating.Tokens
}

// work is what metrics depend on besides the step.
type work struct {
	layers []gpipe.LayerInfo
	tokens int     // of an example; 0: an image
	peak   float64 // of a device, FLOP/s
	until  float64 // tokens, or images, after which a training ends; 0: not known
}

// work describes the network on its devices.
func (s Simulating) work(p gpipe.Pipeline, described *gpipe.Description) work {
	w := work{layers: described.Layers, peak: p.Devices[0].Accelerator.Rate(s.DType), until: s.Tokens}
	if !s.Model.Images() {
		w.tokens = s.Model.Seq
	}
	return w
}

// metrics are those of a step of a mini-batch on a number of devices. Sizes are the layers of each
// piece of the network, and recomputed the examples whose forward function it runs again.
func (w work) metrics(seconds float64, batch, devices int, sizes, recomputed []int) Metrics {
	var forward, masked, again float64
	next := 0
	for piece, size := range sizes {
		for _, l := range w.layers[next : next+size] {
			forward += float64(float64(l.FLOPs) * float64(batch))
			masked += float64(float64(l.Masked) * float64(batch))
			again += float64(float64(l.FLOPs) * float64(recomputed[piece]))
		}
		next += size
	}
	d := float64(devices)
	examples := float64(batch) / seconds
	m := Metrics{
		Accelerators: devices, ExamplesPerSecondPerDevice: examples / d,
		ModelFLOPs: 3 * forward, HardwareFLOPs: float64(3*forward) + again,
		PeakTFLOPs: w.peak / 1e12, CausalMFU: 3 * (forward - masked) / (seconds * d * w.peak),
	}
	m.TFLOPsPerDevice, m.HardwareTFLOPsPerDevice = m.ModelFLOPs/(seconds*d*1e12), m.HardwareFLOPs/(seconds*d*1e12)
	m.MFU, m.HFU = m.TFLOPsPerDevice/m.PeakTFLOPs, m.HardwareTFLOPsPerDevice/m.PeakTFLOPs
	rate := examples
	if w.tokens > 0 {
		rate = examples * float64(w.tokens)
		m.TokensPerSecond, m.TokensPerSecondPerDevice = rate, rate/d
	}
	const day = 24 * 60 * 60 // seconds
	m.Days = w.until / rate / day
	return m
}
