package kernel

import "math"

func gatedKernels() []vectorKernel {
	in := operand{role: reads}
	sigma := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	return []vectorKernel{
		{
			name: "SwiGLU", flat: true, operands: []operand{{role: writes}, in, in},
			call: func(o [][]float32, _ cut) { SwiGLU(o[0], o[1], o[2]) },
			want: func(o [][]float32, _ cut) [][]float64 {
				y := make([]float64, len(o[0]))
				for i, x := range o[1] {
					y[i] = float64(x) * sigma(x) * float64(o[2][i])
				}
				return [][]float64{y, nil, nil}
			},
			ulps: 16,
		},
		{
			name: "SwiGLUGrad", flat: true, operands: []operand{{role: writes}, {role: writes}, in, in, in},
			call: func(o [][]float32, _ cut) { SwiGLUGrad(o[0], o[1], o[2], o[3], o[4]) },
			want: func(o [][]float32, _ cut) [][]float64 {
				dx, du := make([]float64, len(o[0])), make([]float64, len(o[1]))
				for i, x := range o[3] {
					dy, x, s, u := float64(o[2][i]), float64(x), sigma(x), float64(o[4][i])
					dx[i], du[i] = dy*u*(s+x*s*(1-s)), dy*x*s
				}
				return [][]float64{dx, du, nil, nil, nil}
			},
			ulps: 32, floor: 1,
		},
	}
}
