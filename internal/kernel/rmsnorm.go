package kernel

// RMSNorm divides each row of x, which is (rows, cols), by its root mean square (Zhang and
// Sennrich: Root Mean Square Layer Normalization, arXiv 1910.07467, section 4):
//
//	y = x scale * gamma,  scale = 1/√(Σ x²/cols + eps)
//
// gamma is (cols). scale, (rows), is set for the backward pass. y may not be x.
func RMSNorm(y, scale, x, gamma []float32, rows, cols int, eps float32) {
	for r := range rows {
		x, y := x[r*cols:(r+1)*cols], y[r*cols:(r+1)*cols]
		scale[r] = inverseDeviation32(vector.dot(x, x)/float32(cols), eps)
		vector.scale(y, x, scale[r])
		vector.mul(y, y, gamma)
	}
}

// RMSNormGrad sets dx to the gradient of RMSNorm's x, all (rows, cols):
//
//	dx = scale g - scale h mean(g h)
//
// where g = dy gamma, h = x scale, and the mean is over the row. dx may be dy and may not be x.
func RMSNormGrad(dx, dy, x, gamma, scale []float32, rows, cols int) {
	for r := range rows {
		dx, dy, x, scale := dx[r*cols:(r+1)*cols], dy[r*cols:(r+1)*cols], x[r*cols:(r+1)*cols], scale[r]
		vector.mul(dx, dy, gamma)
		mean := float32(vector.dot(dx, x)*scale) / float32(cols)
		vector.scale(dx, dx, scale)
		vector.addScaled(dx, dx, x, -float32(float32(mean*scale)*scale))
	}
}

// RMSNormParamGrad adds the gradient of gamma to dgamma, which is (cols): dy h, over the rows in
// ascending order. dy and x have the leading dimension ld, so that a caller can cut the columns.
func RMSNormParamGrad(dgamma, dy, x, scale []float32, rows, cols, ld int) {
	dgamma = dgamma[:cols]
	for r, scale := range scale[:rows] {
		dy, x := dy[r*ld:][:cols], x[r*ld:][:cols]
		for j := range dgamma {
			dgamma[j] += float32(dy[j] * float32(x[j]*scale))
		}
	}
}
