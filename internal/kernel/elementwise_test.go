package kernel

import "math"

func elementwiseKernels() []vectorKernel {
	unary, binary := []operand{{role: writes}, {role: reads}}, []operand{{role: writes}, {role: reads}, {role: reads}}
	const s, limit = float32(-0.7), float32(1.25)
	where := func(keep bool, v float64) float64 {
		if keep {
			return v
		}
		return 0
	}
	var kernels []vectorKernel
	define := func(name string, operands []operand, ulps float64, call func(o [][]float32, c cut), want func(v []float64) float64) {
		k := vectorKernel{name: name, operands: operands, flat: true, call: call, ulps: ulps}
		for i := range operands[1:] {
			k.aliases = append(k.aliases, i+1)
		}
		elementWise(&k, func(v []float64) []float64 { return []float64{want(v)} })
		kernels = append(kernels, k)
	}
	define("Add", binary, 1, func(o [][]float32, _ cut) { Add(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] + v[2] })
	define("Mul", binary, 1, func(o [][]float32, _ cut) { Mul(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] * v[2] })
	define("Scale", unary, 1, func(o [][]float32, _ cut) { Scale(o[0], o[1], s) },
		func(v []float64) float64 { return v[1] * float64(s) })
	define("AddScaled", binary, 1, func(o [][]float32, _ cut) { AddScaled(o[0], o[1], o[2], s) },
		func(v []float64) float64 { return math.FMA(float64(s), v[2], v[1]) })
	define("Zero", unary, 0, func(o [][]float32, _ cut) { Zero(o[0]) },
		func([]float64) float64 { return 0 })
	define("Relu", unary, 0, func(o [][]float32, _ cut) { Relu(o[0], o[1]) },
		func(v []float64) float64 { return max(v[1], 0) })
	define("AddRelu", binary, 1, func(o [][]float32, _ cut) { AddRelu(o[0], o[1], o[2]) },
		func(v []float64) float64 { return max(v[1]+v[2], 0) })
	define("ReluGrad", binary, 0, func(o [][]float32, _ cut) { ReluGrad(o[0], o[1], o[2]) },
		func(v []float64) float64 { return where(v[2] > 0, v[1]) })
	define("Clip", unary, 0, func(o [][]float32, _ cut) { Clip(o[0], o[1], limit) },
		func(v []float64) float64 { return min(max(v[1], -float64(limit)), float64(limit)) })
	define("ClipGrad", binary, 0, func(o [][]float32, _ cut) { ClipGrad(o[0], o[1], o[2], limit) },
		func(v []float64) float64 { return where(math.Abs(v[2]) <= float64(limit), v[1]) })
	define("Sub", binary, 1, func(o [][]float32, _ cut) { Sub(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] - v[2] })
	define("Shift", unary, 1, func(o [][]float32, _ cut) { Shift(o[0], o[1], s) },
		func(v []float64) float64 { return v[1] + float64(s) })
	define("Log", unary, 1, func(o [][]float32, _ cut) { Log(o[0], o[1]) },
		func(v []float64) float64 { return math.Log(v[1]) })
	define("LogGrad", binary, 1, func(o [][]float32, _ cut) { LogGrad(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] / v[2] })
	define("Exp", unary, 16, func(o [][]float32, _ cut) { Exp(o[0], o[1]) },
		func(v []float64) float64 { return math.Exp(v[1]) })
	define("Sigmoid", unary, 8, func(o [][]float32, _ cut) { Sigmoid(o[0], o[1]) },
		func(v []float64) float64 { return 1 / (1 + math.Exp(-v[1])) })
	define("SigmoidGrad", binary, 4, func(o [][]float32, _ cut) { SigmoidGrad(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] * float64(float32(v[2]*(1-v[2]))) })
	define("Tanh", unary, 6, func(o [][]float32, _ cut) { Tanh(o[0], o[1]) },
		func(v []float64) float64 { return math.Tanh(v[1]) })
	define("TanhGrad", binary, 4, func(o [][]float32, _ cut) { TanhGrad(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] * float64(float32(1-v[2]*v[2])) })
	define("Gelu", unary, geluUlps, func(o [][]float32, _ cut) { Gelu(o[0], o[1]) },
		func(v []float64) float64 { return geluReference(v[1]) })
	define("GeluGrad", binary, 0, func(o [][]float32, _ cut) { GeluGrad(o[0], o[1], o[2]) },
		func(v []float64) float64 { return v[1] * geluSlopeReference(v[2]) })
	last := &kernels[len(kernels)-1]
	last.ulps, last.floor = 128, 1
	return kernels
}

// geluUlps allows for the exponential's argument, which is up to 88 and off by
// 1.5 ulp.
const geluUlps = 256

// geluReference is the published formula, x(1 + tanh u)/2, where it does not
// cancel in float64, and its limits elsewhere.
func geluReference(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return math.NaN()
	case x < -5:
		return x / (1 + math.Exp(-2*geluArgument(x)))
	case x > 40:
		return x
	}
	return 0.5 * x * (1 + math.Tanh(geluArgument(x)))
}

func geluArgument(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

// geluSlopeReference is a central difference.
func geluSlopeReference(x float64) float64 {
	switch {
	case x > 40:
		return 1
	case x < -40:
		return 0
	}
	const h = 1e-5
	return (geluReference(x+h) - geluReference(x-h)) / (2 * h)
}
