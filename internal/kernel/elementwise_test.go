package kernel

func elementwiseKernels() []vectorKernel {
	unary, binary := []operand{{role: writes}, {role: reads}}, []operand{{role: writes}, {role: reads}, {role: reads}}
	const s, limit = float32(-0.7), float32(1.25)
	var kernels []vectorKernel
	define := func(name string, operands []operand, call func(o [][]float32, c cut)) {
		k := vectorKernel{name: name, operands: operands, flat: true, call: call}
		for i := range operands[1:] {
			k.aliases = append(k.aliases, i+1)
		}
		kernels = append(kernels, k)
	}
	define("Add", binary, func(o [][]float32, _ cut) { Add(o[0], o[1], o[2]) })
	define("Mul", binary, func(o [][]float32, _ cut) { Mul(o[0], o[1], o[2]) })
	define("Scale", unary, func(o [][]float32, _ cut) { Scale(o[0], o[1], s) })
	define("AddScaled", binary, func(o [][]float32, _ cut) { vector.addScaled(o[0], o[1], o[2], s) })
	define("Zero", unary, func(o [][]float32, _ cut) { Zero(o[0]) })
	define("Relu", unary, func(o [][]float32, _ cut) { Relu(o[0], o[1]) })
	define("AddRelu", binary, func(o [][]float32, _ cut) { AddRelu(o[0], o[1], o[2]) })
	define("ReluGrad", binary, func(o [][]float32, _ cut) { ReluGrad(o[0], o[1], o[2]) })
	define("Clip", unary, func(o [][]float32, _ cut) { Clip(o[0], o[1], limit) })
	define("ClipGrad", binary, func(o [][]float32, _ cut) { ClipGrad(o[0], o[1], o[2], limit) })
	define("Sub", binary, func(o [][]float32, _ cut) { Sub(o[0], o[1], o[2]) })
	define("Shift", unary, func(o [][]float32, _ cut) { Shift(o[0], o[1], s) })
	define("Log", unary, func(o [][]float32, _ cut) { Log(o[0], o[1]) })
	define("LogGrad", binary, func(o [][]float32, _ cut) { LogGrad(o[0], o[1], o[2]) })
	define("Exp", unary, func(o [][]float32, _ cut) { Exp(o[0], o[1]) })
	define("Sigmoid", unary, func(o [][]float32, _ cut) { Sigmoid(o[0], o[1]) })
	define("SigmoidGrad", binary, func(o [][]float32, _ cut) { SigmoidGrad(o[0], o[1], o[2]) })
	define("Tanh", unary, func(o [][]float32, _ cut) { Tanh(o[0], o[1]) })
	define("TanhGrad", binary, func(o [][]float32, _ cut) { TanhGrad(o[0], o[1], o[2]) })
	define("Gelu", unary, func(o [][]float32, _ cut) { Gelu(o[0], o[1]) })
	define("GeluGrad", binary, func(o [][]float32, _ cut) { GeluGrad(o[0], o[1], o[2]) })
	return kernels
}
