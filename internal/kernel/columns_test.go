package kernel

func columnKernels() []vectorKernel {
	var kernels []vectorKernel
	for name, f := range map[string]func(dst, x, bias []float32, rows, cols, ld int){
		"AddBias": AddBias, "AddBiasRelu": AddBiasRelu, "AddBiasGelu": AddBiasGelu,
	} {
		kernels = append(kernels, vectorKernel{
			name: name, byRow: true, byColumn: true, aliases: []int{1},
			operands: []operand{{role: writes}, {role: reads}, {role: reads, layout: perColumn}},
			call:     func(o [][]float32, c cut) { f(o[0], o[1], o[2], c.rows, c.cols, c.ld) },
		})
	}
	return append(kernels, vectorKernel{
		name: "ColSum", byRow: true, byColumn: true,
		operands: []operand{{role: updates, layout: perColumn}, {role: reads}},
		call:     func(o [][]float32, c cut) { ColSum(o[0], o[1], c.rows, c.cols, c.ld) },
	})
}
