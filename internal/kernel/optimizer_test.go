package kernel

// The steps of optimisers have their definitions in TestContract; package nn compares them
// with PyTorch's.
func optimizerKernels() []vectorKernel {
	const (
		lr, mu, s, l2                   = float32(0.1), float32(0.9), float32(0.5), float32(0.01)
		beta1, beta2, eps, bias1, bias2 = float32(0.9), float32(0.98), float32(1e-6), float32(0.271), float32(0.0588)
		decay                           = float32(3) // large, so that a second rounding of its product shows
	)
	state, gradient := operand{role: updates}, operand{role: reads}
	squares := operand{role: updates, positive: true}
	return []vectorKernel{
		{name: "SGD", flat: true, operands: []operand{state, gradient}, call: func(o [][]float32, _ cut) { SGD(o[0], o[1], lr, s, l2) }},
		{name: "Momentum", flat: true, operands: []operand{state, state, gradient}, call: func(o [][]float32, _ cut) { Momentum(o[0], o[1], o[2], lr, mu, s, l2, false) }},
		{name: "Nesterov", flat: true, operands: []operand{state, state, gradient}, call: func(o [][]float32, _ cut) { Momentum(o[0], o[1], o[2], lr, mu, s, l2, true) }},
		{
			name: "Adam", flat: true, operands: []operand{state, state, squares, gradient},
			call: func(o [][]float32, _ cut) {
				Adam(o[0], o[1], o[2], o[3], lr, beta1, beta2, eps, bias1, bias2, s, l2, decay)
			},
		},
		{
			name: "RMSProp", flat: true, operands: []operand{state, squares, state, gradient},
			call: func(o [][]float32, _ cut) { RMSProp(o[0], o[1], o[2], o[3], lr, beta1, mu, eps, s, l2) },
		},
		{name: "Average", flat: true, operands: []operand{state, gradient}, call: func(o [][]float32, _ cut) { Average(o[0], o[1], decay) }},
	}
}
