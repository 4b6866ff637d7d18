package kernel

import "math"

func columnMomentsGeneric(mean, squares, x []float32, rows, cols, ld int) {
	for j := range cols {
		var sum float32
		for i := range rows {
			sum += x[i*ld+j]
		}
		m := sum / float32(rows)
		var s float32
		for i := range rows {
			d := x[i*ld+j] - m
			s = fma32(d, d, s)
		}
		mean[j], squares[j] = m, s
	}
}

func normStatsGeneric(mean, scale, moments []float32, rows, cols, ld int, eps float32) {
	for j := range cols {
		m, squares := mergedMoments(moments[j:], rows, ld)
		mean[j], scale[j] = float32(m), inverseDeviation(squares/float64(rows), eps)
	}
}

func normStatsTallyGeneric(count, tallyMean, tallySquares []float64, mean, scale, moments []float32, rows, cols, ld int, eps float32) {
	for j := range cols {
		m, squares := mergedMoments(moments[j:], rows, ld)
		mean[j], scale[j] = float32(m), inverseDeviation(squares/float64(rows), eps)

		share := float64(rows) / (count[j] + float64(rows)) // of this micro-batch
		d := m - tallyMean[j]
		tallyMean[j] = math.FMA(share, d, tallyMean[j])
		tallySquares[j] = math.FMA(count[j]*share, float64(d*d), squares+tallySquares[j])
		count[j] += float64(rows)
	}
}

// mergedMoments returns the mean and the sum of squared deviations of a column.
// All chunks but the last have NormChunk rows, by which their sums are multiplied
// once.
func mergedMoments(moments []float32, rows, ld int) (mean, squares float64) {
	last := NormChunks(rows) - 1
	_, n := chunkRows(last, rows)
	at := func(chunk int) float64 { return float64(moments[2*chunk*ld]) }
	for chunk := range last {
		mean += at(chunk)
	}
	mean = math.FMA(float64(n), at(last), float64(NormChunk*mean)) / float64(rows)
	between := 0.0
	for chunk := range last + 1 {
		squares += float64(moments[(2*chunk+1)*ld])
		if d := at(chunk) - mean; chunk < last {
			between = math.FMA(d, d, between)
		} else {
			squares = math.FMA(float64(n), float64(d*d), math.FMA(NormChunk, between, squares))
		}
	}
	return mean, squares
}

func normTotalsGeneric(total, totalX, sums []float32, chunks, cols, ld int) {
	for j := range cols {
		var sum, sumX float64
		for chunk := range chunks {
			sum += float64(sums[2*chunk*ld+j])
			sumX += float64(sums[(2*chunk+1)*ld+j])
		}
		total[j], totalX[j] = float32(sum), float32(sumX)
	}
}

func batchNormGeneric(y, x, mean, scale, gamma, beta []float32, rows, cols int) {
	for i := range rows {
		x, y := x[i*cols:(i+1)*cols], y[i*cols:(i+1)*cols]
		for j, v := range x {
			y[j] = fma32(normalised(v, mean[j], scale[j]), gamma[j], beta[j])
		}
	}
}

func batchNormReluGeneric(y, x, mean, scale, gamma, beta []float32, rows, cols int) {
	batchNormGeneric(y, x, mean, scale, gamma, beta, rows, cols)
	reluGeneric(y[:rows*cols], y)
}

func batchNormAddGeneric(y, x, add, mean, scale, gamma, beta []float32, rows, cols int) {
	for i := range rows {
		x, y, add := x[i*cols:(i+1)*cols], y[i*cols:(i+1)*cols], add[i*cols:(i+1)*cols]
		for j, v := range x {
			y[j] = fma32(normalised(v, mean[j], scale[j]), gamma[j], beta[j]) + add[j]
		}
	}
}

func batchNormAddReluGeneric(y, x, add, mean, scale, gamma, beta []float32, rows, cols int) {
	batchNormAddGeneric(y, x, add, mean, scale, gamma, beta, rows, cols)
	reluGeneric(y[:rows*cols], y)
}

func batchNormEvalGeneric(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
	batchNormEvalAddGeneric(y, x, nil, mean, variance, gamma, beta, rows, cols, eps)
}

func batchNormEvalReluGeneric(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
	batchNormEvalGeneric(y, x, mean, variance, gamma, beta, rows, cols, eps)
	reluGeneric(y[:rows*cols], y)
}

func batchNormEvalAddGeneric(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
	for j := range cols {
		scale := inverseDeviation32(variance[j], eps)
		for i := j; i < rows*cols; i += cols {
			v := fma32(normalised(x[i], mean[j], scale), gamma[j], beta[j])
			if add != nil {
				v += add[i]
			}
			y[i] = v
		}
	}
}

func batchNormEvalAddReluGeneric(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
	batchNormEvalAddGeneric(y, x, add, mean, variance, gamma, beta, rows, cols, eps)
	reluGeneric(y[:rows*cols], y)
}

func batchNormGradSumsGeneric(sum, sumX, dy, x, mean, scale []float32, rows, cols, ld int) {
	for j := range cols {
		var s, sx float32
		for i := j; i < rows*ld; i += ld {
			s += dy[i]
			sx = fma32(dy[i], normalised(x[i], mean[j], scale[j]), sx)
		}
		sum[j], sumX[j] = s, sx
	}
}

func batchNormReluGradSumsGeneric(sum, sumX, dy, x, mean, scale, gamma, beta []float32, rows, cols, ld int) {
	for j := range cols {
		var s, sx float32
		for i := j; i < rows*ld; i += ld {
			h, dz := normalised(x[i], mean[j], scale[j]), dy[i]
			if !(fma32(h, gamma[j], beta[j]) > 0) {
				dz = 0
			}
			s += dz
			sx = fma32(dz, h, sx) // NaN also where dz is 0, if h is not finite
		}
		sum[j], sumX[j] = s, sx
	}
}

func batchNormGradGeneric(dx, dy, x, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32) {
	batchNormReluGradAddGeneric(dx, dy, x, nil, mean, scale, total, totalX, gamma, nil, rows, cols, share)
}

func batchNormReluGradGeneric(dx, dy, x, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32) {
	batchNormReluGradAddGeneric(dx, dy, x, nil, mean, scale, total, totalX, gamma, beta, rows, cols, share)
}

func batchNormGradAddGeneric(dx, dy, x, add, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32) {
	batchNormReluGradAddGeneric(dx, dy, x, add, mean, scale, total, totalX, gamma, nil, rows, cols, share)
}

// Without beta there is no Relu.
func batchNormReluGradAddGeneric(dx, dy, x, add, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32) {
	for j := range cols {
		k, meanZ, meanZX := float32(gamma[j]*scale[j]), float32(total[j]*share), float32(totalX[j]*share)
		for i := j; i < rows*cols; i += cols {
			h, dz := normalised(x[i], mean[j], scale[j]), dy[i]
			if beta != nil && !(fma32(h, gamma[j], beta[j]) > 0) {
				dz = 0
			}
			d := fma32(-h, meanZX, dz-meanZ)
			if add == nil {
				dx[i] = d * k
			} else {
				dx[i] = fma32(d, k, add[i])
			}
		}
	}
}
