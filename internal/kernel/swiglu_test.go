package kernel

func gatedKernels() []vectorKernel {
	in := operand{role: reads}
	return []vectorKernel{
		{name: "SwiGLU", flat: true, operands: []operand{{role: writes}, in, in}, call: func(o [][]float32, _ cut) { SwiGLU(o[0], o[1], o[2]) }},
		{
			name: "SwiGLUGrad", flat: true, operands: []operand{{role: writes}, {role: writes}, in, in, in},
			call: func(o [][]float32, _ cut) { SwiGLUGrad(o[0], o[1], o[2], o[3], o[4]) },
		},
	}
}
