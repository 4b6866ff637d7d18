package simulate

import (
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
)

// Metrics are what practitioners compare trainings by. With F the floating-point operations of
// the forward pass of a mini-batch, D the devices and t the seconds of a step:
//
//	model FLOPs     3 F, since the backward pass has two products for each of the forward pass
//	hardware FLOPs  3 F, and the forward pass of what is recomputed once more: of stages (GPipe's
//	                recomputation), of all layers but the first and the last (full), or of attention (selective)
//	MFU             model FLOPs / (t D peak)
//	causal MFU      the same with half of the products of causal attention
//	HFU             hardware FLOPs / (t D peak)
//
// F is 2 for each multiply-add of matrix products and convolutions: logits are in it, lookups of
// embeddings and element-wise operations are not, and attention counts in full, as in PaLM
// (Chowdhery et al. 2022, appendix B) and Megatron (Narayanan et al. 2021, section 5.1; Korthikanti
// et al. 2022, appendix A). The mask of causal attention hides about half of its products. The peak
// is the accelerator's for dense products in the training's precision, without sparsity, whatever
// share of it is reached. A step is computing, communication that nothing hides and the update;
// loading data and evaluation are not in it.
type Metrics struct {
	Accelerators int `json:"accelerators"` // D: T R K, or R K with S parts of images each
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
	layers    []gpipe.LayerInfo
	recompute gpipe.Recompute
	tokens    int     // of an example; 0: an image
	peak      float64 // of a device, FLOP/s
	until     float64 // tokens, or images, after which a training ends; 0: not known
}

// work describes the whole network, which its devices may have in parts.
func (s Simulating) work(p gpipe.Pipeline, whole *gpipe.Description) work {
	w := work{layers: whole.Layers, recompute: s.Recompute, peak: s.rate(p.Devices[0].Accelerator), until: s.Tokens}
	if !s.Model.Images() {
		w.tokens = s.Model.Seq
	}
	return w
}

// rate is the peak of products in the training's precision.
func (s Simulating) rate(a *accelerator.Accelerator) float64 {
	switch {
	case s.Precision == gpipe.FP8Products:
		return a.FP8
	case s.Precision == gpipe.FP16Weights && a.FP16 > 0:
		return a.FP16
	}
	return a.Rate(s.DType)
}

// metrics returns the rates of a step of a mini-batch on a number of devices. Sizes are the layers of each
// piece of the network, and recomputed the examples whose forward function the piece runs again.
func (w work) metrics(seconds float64, batch, devices int, sizes, recomputed []int) Metrics {
	var forward, masked, again float64 // FLOPs
	count := func(sum *float64, flops int64, examples int) { *sum += float64(float64(flops) * float64(examples)) }
	next := 0
	for piece, size := range sizes {
		for _, l := range w.layers[next : next+size] {
			count(&forward, l.FLOPs, batch)
			count(&masked, l.Masked, batch)
			count(&again, l.FLOPs, recomputed[piece])
		}
		next += size
	}
	for i, l := range w.layers {
		switch {
		case w.recompute == gpipe.RecomputeFull && 0 < i && i < len(w.layers)-1:
			count(&again, l.FLOPs, batch)
		case w.recompute == gpipe.RecomputeSelective:
			count(&again, l.Attention, batch)
		}
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
