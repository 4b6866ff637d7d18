package kernel

import "math"

func optimizerKernels() []vectorKernel {
	const (
		lr, mu, s, l2                   = float32(0.1), float32(0.9), float32(0.5), float32(0.01)
		beta1, beta2, eps, bias1, bias2 = float32(0.9), float32(0.98), float32(1e-6), float32(0.271), float32(0.0588)
		decay                           = float32(0.05)
	)
	state, gradient := operand{role: updates}, operand{role: reads}
	squares := operand{role: updates, positive: true}
	regularised := func(g, w float64) float64 { return float64(s)*g + float64(l2)*w }

	sgd := vectorKernel{
		name: "SGD", operands: []operand{state, gradient},
		call: func(o [][]float32, _ cut) { SGD(o[0], o[1], lr, s, l2) },
	}
	elementWise(&sgd, func(v []float64) []float64 {
		return []float64{v[0] - float64(lr)*regularised(v[1], v[0])}
	})
	kernels := []vectorKernel{sgd}

	for _, nesterov := range []bool{false, true} {
		k := vectorKernel{
			name: "Momentum", operands: []operand{state, state, gradient},
			call: func(o [][]float32, _ cut) { Momentum(o[0], o[1], o[2], lr, mu, s, l2, nesterov) },
		}
		if nesterov {
			k.name = "Nesterov"
		}
		elementWise(&k, func(v []float64) []float64 {
			g := regularised(v[2], v[0])
			velocity := float64(mu)*v[1] + g
			if nesterov {
				return []float64{v[0] - float64(lr)*(g+float64(mu)*velocity), velocity}
			}
			return []float64{v[0] - float64(lr)*velocity, velocity}
		})
		kernels = append(kernels, k)
	}

	adam := vectorKernel{
		name: "Adam", operands: []operand{state, state, squares, gradient},
		call: func(o [][]float32, _ cut) {
			Adam(o[0], o[1], o[2], o[3], lr, beta1, beta2, eps, bias1, bias2, s, l2, decay)
		},
	}
	elementWise(&adam, func(v []float64) []float64 {
		w, g := v[0], regularised(v[3], v[0])
		mean := float64(beta1)*v[1] + (1-float64(beta1))*g
		square := float64(beta2)*v[2] + (1-float64(beta2))*g*g
		w -= float64(lr) * float64(decay) * w
		w -= float64(lr) / float64(bias1) * mean / (math.Sqrt(square)/math.Sqrt(float64(bias2)) + float64(eps))
		return []float64{w, mean, square}
	})
	kernels = append(kernels, adam)

	rmsprop := vectorKernel{
		name: "RMSProp", operands: []operand{state, squares, state, gradient},
		call: func(o [][]float32, _ cut) { RMSProp(o[0], o[1], o[2], o[3], lr, beta1, mu, eps, s, l2) },
	}
	elementWise(&rmsprop, func(v []float64) []float64 {
		g := regularised(v[3], v[0])
		square := float64(beta1)*v[1] + (1-float64(beta1))*g*g
		momentum := float64(mu)*v[2] + float64(lr)*g/math.Sqrt(square+float64(eps))
		return []float64{v[0] - momentum, square, momentum}
	})
	average := vectorKernel{
		name: "Average", operands: []operand{state, gradient},
		call: func(o [][]float32, _ cut) { Average(o[0], o[1], decay) },
	}
	elementWise(&average, func(v []float64) []float64 { return []float64{v[0] + float64(decay)*(v[1]-v[0])} })
	kernels = append(kernels, rmsprop, average)

	for i := range kernels {
		k := &kernels[i]
		k.flat, k.ulps, k.floor = true, 16, 1
	}
	return kernels
}
