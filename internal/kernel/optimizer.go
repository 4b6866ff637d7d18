package kernel

import "math"

// Update steps of the optimisers, element by element, over len(w). g is the
// mini-batch's gradient; a step uses s*g + l2*w, where s is the factor of norm
// clipping.

// SGD takes a step of stochastic gradient descent: w -= lr g.
func SGD(w, g []float32, lr, s, l2 float32) { vector.sgd(w, g, lr, s, l2) }

// Momentum takes a step with the velocity v = mu v + g: w -= lr v, or with
// nesterov w -= lr (g + mu v), as in PyTorch (Sutskever et al.: On the
// importance of initialization and momentum in deep learning, ICML 2013, with
// lr outside the velocity). v starts from zero.
func Momentum(w, v, g []float32, lr, mu, s, l2 float32, nesterov bool) {
	if nesterov {
		vector.nesterov(w, v, g, lr, mu, s, l2)
		return
	}
	vector.momentum(w, v, g, lr, mu, s, l2)
}

// Adam takes a step of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1), as
// in PyTorch:
//
//	w -= lr decay w    (decoupled decay, AdamW: Loshchilov and Hutter, arXiv 1711.05101)
//	m  = beta1 m + (1-beta1) g
//	v  = beta2 v + (1-beta2) g²
//	w -= lr/bias1 m / (√v/√bias2 + eps)
//
// bias1 and bias2 are 1-beta1^t and 1-beta2^t in step t = 1, 2, ...; m and v
// start from zero.
func Adam(w, m, v, g []float32, lr, beta1, beta2, eps, bias1, bias2, s, l2, decay float32) {
	root := float32(1 / math.Sqrt(float64(bias2)))
	vector.adam(w, m, v, g, beta1, 1-beta1, beta2, 1-beta2, eps, lr/bias1, root, lr*decay, s, l2)
}

// RMSProp takes a step of RMSProp with momentum as in TensorFlow 1
// (tf.train.RMSPropOptimizer; Tieleman and Hinton, Coursera lecture 6.5, 2012,
// and eps inside the root):
//
//	ms  = decay ms + (1-decay) g²
//	mom = mu mom + lr g / √(ms + eps)
//	w  -= mom
//
// ms starts from one and mom from zero.
func RMSProp(w, ms, mom, g []float32, lr, decay, mu, eps, s, l2 float32) {
	vector.rmsprop(w, ms, mom, g, decay, 1-decay, mu, eps, lr, s, l2)
}

// Average moves an exponential moving average of w by the share rest, which is
// 1 less the decay, of its distance from w: avg += rest (w - avg).
func Average(avg, w []float32, rest float32) { vector.average(avg, w, rest) }

// scaledGradient returns the gradient that a step uses.
func scaledGradient(g, w, s, l2 float32) float32 { return fma32(l2, w, float32(s*g)) }

func sgdGeneric(w, g []float32, lr, s, l2 float32) {
	for i := range w {
		w[i] = fma32(-lr, scaledGradient(g[i], w[i], s, l2), w[i])
	}
}

func momentumGeneric(w, v, g []float32, lr, mu, s, l2 float32) {
	for i := range w {
		v[i] = fma32(mu, v[i], scaledGradient(g[i], w[i], s, l2))
		w[i] = fma32(-lr, v[i], w[i])
	}
}

func nesterovGeneric(w, v, g []float32, lr, mu, s, l2 float32) {
	for i := range w {
		grad := scaledGradient(g[i], w[i], s, l2)
		v[i] = fma32(mu, v[i], grad)
		w[i] = fma32(-lr, fma32(mu, v[i], grad), w[i])
	}
}

func adamGeneric(w, m, v, g []float32, beta1, rest1, beta2, rest2, eps, step, root, shrink, s, l2 float32) {
	for i := range w {
		grad := scaledGradient(g[i], w[i], s, l2)
		m[i] = fma32(rest1, grad, float32(beta1*m[i]))
		v[i] = fma32(rest2, float32(grad*grad), float32(beta2*v[i]))
		decayed := fma32(-shrink, w[i], w[i])
		deviation := float32(math.Sqrt(float64(v[i])))
		w[i] = fma32(-step, m[i]/fma32(deviation, root, eps), decayed)
	}
}

func rmspropGeneric(w, ms, mom, g []float32, decay, rest, mu, eps, lr, s, l2 float32) {
	for i := range w {
		grad := scaledGradient(g[i], w[i], s, l2)
		ms[i] = fma32(rest, float32(grad*grad), float32(decay*ms[i]))
		root := float32(math.Sqrt(float64(float32(ms[i] + eps))))
		mom[i] = fma32(mu, mom[i], float32(lr*grad)/root)
		w[i] -= mom[i]
	}
}

func averageGeneric(avg, w []float32, rest float32) {
	for i := range avg {
		avg[i] = fma32(rest, float32(w[i]-avg[i]), avg[i])
	}
}
