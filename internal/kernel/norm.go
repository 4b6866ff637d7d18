package kernel

import "math"

// LayerNorm normalises each row of x, which is (rows, cols):
//
//	y = (x - mean) / √(var + eps) * gamma + beta
//
// with the row's mean and biased variance, in two passes (Ba, Kiros and Hinton:
// Layer Normalization, arXiv 1607.06450, section 3). gamma and beta are (cols).
// stats, (rows, 2), is set to the mean and 1/√(var + eps) for the backward
// pass. y may be x.
func LayerNorm(y, stats, x, gamma, beta []float32, rows, cols int, eps float32) {
	vector.layerNorm(y, stats, x, gamma, beta, rows, cols, eps)
}

// LayerNormGrad sets dx to the gradient of LayerNorm's x, all (rows, cols):
//
//	dx = (g - mean(g) - h mean(g h)) / √(var + eps) [+ add]
//
// where g = dy gamma, h is the normalised x, and means are over the row. add
// may be nil; it is the gradient that reaches x by another path. dx may be dy,
// x or add.
func LayerNormGrad(dx, dy, x, gamma, stats, add []float32, rows, cols int) {
	if add == nil {
		vector.layerNormGrad(dx, dy, x, gamma, stats, rows, cols)
		return
	}
	vector.layerNormGradAdd(dx, dy, x, gamma, stats, add, rows, cols)
}

// LayerNormParamGrad adds the gradients of gamma and beta to dgamma and dbeta,
// which are (cols): dgamma += dy h by fused multiply-adds and dbeta += dy, over
// the rows in ascending order. dy and x have the leading dimension ld, so that
// a caller can cut the columns.
func LayerNormParamGrad(dgamma, dbeta, dy, x, stats []float32, rows, cols, ld int) {
	vector.layerNormParamGrad(dgamma, dbeta, dy, x, stats, rows, cols, ld)
}

func layerNormGeneric(y, stats, x, gamma, beta []float32, rows, cols int, eps float32) {
	for r := range rows {
		x, y := x[r*cols:(r+1)*cols], y[r*cols:(r+1)*cols]
		var sum, squares float64
		for _, v := range x {
			sum += float64(v)
		}
		mean := float32(sum / float64(cols))
		for _, v := range x {
			d := float64(v - mean)
			squares += float64(d * d)
		}
		scale := float32(1 / math.Sqrt(squares/float64(cols)+float64(eps)))
		stats[2*r], stats[2*r+1] = mean, scale
		for j, v := range x {
			y[j] = fma32(normalised(v, mean, scale), gamma[j], beta[j])
		}
	}
}

func normalised(x, mean, scale float32) float32 { return float32((x - mean) * scale) }

func layerNormGradGeneric(dx, dy, x, gamma, stats []float32, rows, cols int) {
	layerNormGradAddGeneric(dx, dy, x, gamma, stats, nil, rows, cols)
}

func layerNormGradAddGeneric(dx, dy, x, gamma, stats, add []float32, rows, cols int) {
	for r := range rows {
		dx, dy, x := dx[r*cols:(r+1)*cols], dy[r*cols:(r+1)*cols], x[r*cols:(r+1)*cols]
		mean, scale := stats[2*r], stats[2*r+1]
		var sumG, sumGH float64
		for j, v := range x {
			g := float64(dy[j]) * float64(gamma[j])
			sumG += g
			sumGH += float64(g * float64(normalised(v, mean, scale)))
		}
		meanG, meanGH := float32(sumG/float64(cols)), float32(sumGH/float64(cols))
		for j, v := range x {
			d := fma32(-normalised(v, mean, scale), meanGH, float32(dy[j]*gamma[j])-meanG)
			if add == nil {
				dx[j] = d * scale
			} else {
				dx[j] = fma32(d, scale, add[r*cols+j])
			}
		}
	}
}

func layerNormParamGradGeneric(dgamma, dbeta, dy, x, stats []float32, rows, cols, ld int) {
	for r := range rows {
		mean, scale := stats[2*r], stats[2*r+1]
		for j := range cols {
			d := dy[r*ld+j]
			dgamma[j] = fma32(d, normalised(x[r*ld+j], mean, scale), dgamma[j])
			dbeta[j] += d
		}
	}
}
