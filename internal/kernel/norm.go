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
		mean := rowSumGeneric(x) / float32(cols)
		var squares [wideTree]float32
		for j, n := 0, 0; j < cols; j += n {
			n = laneGroup(cols-j, wideTree)
			for l, v := range x[j : j+n] {
				squares[l] = fma32(v-mean, v-mean, squares[l])
			}
		}
		scale := inverseDeviation32(Fold(squares[:])/float32(cols), eps)
		stats[2*r], stats[2*r+1] = mean, scale
		for j, v := range x {
			y[j] = fma32(normalised(v, mean, scale), gamma[j], beta[j])
		}
	}
}

// inverseDeviation32 returns 1/√(variance + eps), each operation rounded to
// float32.
func inverseDeviation32(variance, eps float32) float32 {
	return 1 / float32(math.Sqrt(float64(variance+eps)))
}

func normalised(x, mean, scale float32) float32 { return float32((x - mean) * scale) }

func layerNormGradGeneric(dx, dy, x, gamma, stats []float32, rows, cols int) {
	layerNormGradAddGeneric(dx, dy, x, gamma, stats, nil, rows, cols)
}

func layerNormGradAddGeneric(dx, dy, x, gamma, stats, add []float32, rows, cols int) {
	for r := range rows {
		dx, dy, x := dx[r*cols:(r+1)*cols], dy[r*cols:(r+1)*cols], x[r*cols:(r+1)*cols]
		mean, scale := stats[2*r], stats[2*r+1]
		var sumG, sumGH [narrowTree]float32
		for j, n := 0, 0; j < cols; j += n {
			n = laneGroup(cols-j, narrowTree)
			for l, v := range x[j : j+n] {
				g := float32(dy[j+l] * gamma[j+l])
				sumG[l] += g
				sumGH[l] = fma32(g, normalised(v, mean, scale), sumGH[l])
			}
		}
		meanG, meanGH := Fold(sumG[:])/float32(cols), Fold(sumGH[:])/float32(cols)
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
