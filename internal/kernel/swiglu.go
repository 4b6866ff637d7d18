package kernel

// gluBlock is the number of elements that the passes of a gated unit handle at once: they stay in
// the first-level cache.
const gluBlock = 512

// SwiGLU sets y to x σ(x) u, where σ is the logistic function (Shazeer: GLU Variants Improve
// Transformer, arXiv 2002.05202, section 2), over len(y) elements. y may not be x or u.
func SwiGLU(y, x, u []float32) {
	for len(y) > 0 {
		n := min(len(y), gluBlock)
		vector.sigmoid(y[:n], x)
		vector.mul(y[:n], y, x)
		vector.mul(y[:n], y, u)
		y, x, u = y[n:], x[n:], u[n:]
	}
}

// SwiGLUGrad sets dx and du to the gradients of SwiGLU's x and u:
//
//	dx = dy u (σ + x σ (1 - σ)),  du = dy x σ
//
// dx and du may not be dy, x or u.
func SwiGLUGrad(dx, du, dy, x, u []float32) {
	for len(dx) > 0 {
		n := min(len(dx), gluBlock)
		swiGLUGrad(dx[:n], du[:n], dy[:n], x[:n], u[:n])
		dx, du, dy, x, u = dx[n:], du[n:], dy[n:], x[n:], u[n:]
	}
}

func swiGLUGrad(dx, du, dy, x, u []float32) {
	vector.sigmoid(du, x)
	vector.sigmoidGrad(dx, x, du)
	vector.add(dx, dx, du)
	vector.mul(dx, dx, u)
	vector.mul(dx, dx, dy)
	vector.mul(du, du, x)
	vector.mul(du, du, dy)
}
