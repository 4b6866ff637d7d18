package kernel

func columnKernels() []vectorKernel {
	var kernels []vectorKernel
	addBias := func(name string, ulps float64, f func(dst, x, bias []float32, rows, cols, ld int), activation func(x float64) float64) {
		k := vectorKernel{
			name: name, byRow: true, byColumn: true, ulps: ulps, aliases: []int{1},
			operands: []operand{{role: writes}, {role: reads}, {role: reads, layout: perColumn}},
			call:     func(o [][]float32, c cut) { f(o[0], o[1], o[2], c.rows, c.cols, c.ld) },
		}
		elementWise(&k, func(v []float64) []float64 { return []float64{activation(float64(float32(v[1] + v[2])))} })
		kernels = append(kernels, k)
	}
	addBias("AddBias", 0, AddBias, func(x float64) float64 { return x })
	addBias("AddBiasRelu", 0, AddBiasRelu, func(x float64) float64 { return max(x, 0) })
	addBias("AddBiasGelu", geluUlps, AddBiasGelu, geluReference)

	return append(kernels, vectorKernel{
		name: "ColSum", byRow: true, byColumn: true,
		operands: []operand{{role: updates, layout: perColumn}, {role: reads}},
		call:     func(o [][]float32, c cut) { ColSum(o[0], o[1], c.rows, c.cols, c.ld) },
		// Exactly the chain of float32 additions.
		want: func(o [][]float32, c cut) [][]float64 {
			want := make([]float64, c.cols)
			for j := range want {
				sum := o[0][j]
				for i := range c.rows {
					sum += o[1][i*c.ld+j]
				}
				want[j] = float64(sum)
			}
			return [][]float64{want, nil}
		},
	})
}
