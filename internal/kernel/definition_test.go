package kernel

import (
	"math"
	"slices"
)

// The contract of the kernels: a plain definition of each, element by element, in
// the order of its operations. Every profile gives these bits on every processor,
// also for subnormals, infinities and zeros with a sign; only a NaN may have any
// payload and sign. An operation is rounded to float32, unless float64 is written,
// and mulAdd is a product and a sum that are rounded once.
//
// Kernels whose definitions need their geometry have them in their own tests:
// products of matrices (gemmCase.want), convolutions (convCase.want), depthwise ones
// (depthwiseCase.want), pools (eachWindow), dropout (dropoutReference), bfloat16
// (nearestByDefinition).
var contract = implementation{"contract", contractGemm, contractVector, contractAttention}

var contractVector = vectorTable{
	add:       func(dst, a, b []float32) { set(dst, func(i int) float32 { return a[i] + b[i] }) },
	mul:       func(dst, a, b []float32) { set(dst, func(i int) float32 { return a[i] * b[i] }) },
	scale:     func(dst, a []float32, s float32) { set(dst, func(i int) float32 { return a[i] * s }) },
	addScaled: func(dst, a, b []float32, s float32) { set(dst, func(i int) float32 { return mulAdd(s, b[i], a[i]) }) },
	addRelu:   func(dst, a, b []float32) { set(dst, func(i int) float32 { return defineRelu(a[i] + b[i]) }) },
	relu:      func(dst, x []float32) { set(dst, func(i int) float32 { return defineRelu(x[i]) }) },
	reluGrad:  func(dst, dy, y []float32) { set(dst, func(i int) float32 { return where(y[i] > 0, dy[i], 0) }) },
	clip: func(dst, x []float32, limit float32) {
		set(dst, func(i int) float32 { return where(x[i] < -limit, -limit, where(x[i] > limit, limit, x[i])) })
	},
	clipGrad: func(dst, dy, x []float32, limit float32) {
		set(dst, func(i int) float32 { return where(-limit <= x[i] && x[i] <= limit, dy[i], 0) })
	},
	exp:     func(dst, x []float32) { set(dst, func(i int) float32 { return defineExp(x[i]) }) },
	sigmoid: func(dst, x []float32) { set(dst, func(i int) float32 { return defineSigmoid(x[i]) }) },
	sigmoidGrad: func(dst, dy, y []float32) {
		set(dst, func(i int) float32 { return dy[i] * ((1 - y[i]) * y[i]) })
	},
	tanh: func(dst, x []float32) { set(dst, func(i int) float32 { return defineTanh(x[i]) }) },
	tanhGrad: func(dst, dy, y []float32) {
		set(dst, func(i int) float32 { return dy[i] * mulAdd(-y[i], y[i], 1) })
	},
	gelu:     func(dst, x []float32) { set(dst, func(i int) float32 { return defineGelu(x[i]) }) },
	geluGrad: func(dst, dy, x []float32) { set(dst, func(i int) float32 { return dy[i] * defineGeluSlope(x[i]) }) },

	addBias: func(dst, x, bias []float32, rows, cols, ld int) {
		setMatrix(dst, rows, cols, ld, func(at, j int) float32 { return x[at] + bias[j] })
	},
	addBiasRelu: func(dst, x, bias []float32, rows, cols, ld int) {
		setMatrix(dst, rows, cols, ld, func(at, j int) float32 { return defineRelu(x[at] + bias[j]) })
	},
	addBiasGelu: func(dst, x, bias []float32, rows, cols, ld int) {
		setMatrix(dst, rows, cols, ld, func(at, j int) float32 { return defineGelu(x[at] + bias[j]) })
	},
	colSum: func(acc, x []float32, rows, cols, ld int) {
		set(acc[:cols], func(j int) float32 {
			return chain(rows, acc[j], func(sum float32, i int) float32 { return sum + x[i*ld+j] })
		})
	},
	copyColumns: func(dst, src []float32, rows, cols, ldd, lds int) {
		setMatrix(dst, rows, cols, ldd, func(at, j int) float32 { return src[at/ldd*lds+j] })
	},

	rowMax: func(x []float32) float32 { // NaNs left out; a zero may have either sign
		return chain(len(x), float32(math.Inf(-1)), func(most float32, i int) float32 { return where(x[i] > most, x[i], most) })
	},
	rowSum: func(x []float32) float32 {
		return tree(len(x), 64, func(sum float32, i int) float32 { return sum + padded(x, i) })
	},
	dot: func(a, b []float32) float32 {
		return tree(len(a), 64, func(sum float32, i int) float32 { return mulAdd(padded(a, i), padded(b, i), sum) })
	},
	sumSquares: func(x []float32) float64 {
		return tree(len(x), 64, func(sum float64, i int) float64 {
			v := float64(padded(x, i))
			return sum + float64(v*v)
		})
	},
	nonFinite: func(x []float32) int { // of the first one, or of a block in which it is
		return slices.IndexFunc(x, func(v float32) bool { return v-v != 0 })
	},
	expShift: defineExpShift,
	expSum: func(x []float32, scale, shift float32) float32 {
		return defineExpShift(make([]float32, len(x)), x, scale, shift)
	},
	softmaxGrad: func(dst, x []float32, lse, offset, scale float32) {
		set(dst, func(i int) float32 { return (defineExp(x[i]-lse) - offset) * scale })
	},

	layerNorm:        defineLayerNorm,
	layerNormGradAdd: defineLayerNormGrad,
	layerNormGrad: func(dx, dy, x, gamma, stats []float32, rows, cols int) {
		defineLayerNormGrad(dx, dy, x, gamma, stats, nil, rows, cols)
	},
	layerNormParamGrad: func(dgamma, dbeta, dy, x, stats []float32, rows, cols, ld int) {
		for j := range cols {
			dgamma[j] = chain(rows, dgamma[j], func(sum float32, i int) float32 {
				return mulAdd(dy[i*ld+j], defineNormalised(x[i*ld+j], stats[2*i], stats[2*i+1]), sum)
			})
			dbeta[j] = chain(rows, dbeta[j], func(sum float32, i int) float32 { return sum + dy[i*ld+j] })
		}
	},
	dropout:    dropoutGeneric,
	dropoutAdd: dropoutAddGeneric,

	sgd: func(w, g []float32, lr, s, l2 float32) {
		set(w, func(i int) float32 { return mulAdd(-lr, mulAdd(l2, w[i], s*g[i]), w[i]) })
	},
	momentum: func(w, v, g []float32, lr, mu, s, l2 float32) {
		set(v, func(i int) float32 { return mulAdd(mu, v[i], mulAdd(l2, w[i], s*g[i])) })
		set(w, func(i int) float32 { return mulAdd(-lr, v[i], w[i]) })
	},
	nesterov: func(w, v, g []float32, lr, mu, s, l2 float32) {
		set(v, func(i int) float32 { return mulAdd(mu, v[i], mulAdd(l2, w[i], s*g[i])) })
		set(w, func(i int) float32 { return mulAdd(-lr, mulAdd(mu, v[i], mulAdd(l2, w[i], s*g[i])), w[i]) })
	},
	adam: func(w, m, v, g []float32, beta1, rest1, beta2, rest2, eps, step, root, shrink, s, l2 float32) {
		for i := range w {
			g := mulAdd(l2, w[i], s*g[i])
			m[i] = mulAdd(rest1, g, beta1*m[i])
			v[i] = mulAdd(rest2, g*g, beta2*v[i])
			w[i] = mulAdd(-shrink, w[i], w[i])
			w[i] = mulAdd(-step, m[i]/mulAdd(squareRoot(v[i]), root, eps), w[i])
		}
	},
	rmsprop: func(w, ms, mom, g []float32, decay, rest, mu, eps, lr, s, l2 float32) {
		for i := range w {
			g := mulAdd(l2, w[i], s*g[i])
			ms[i] = mulAdd(rest, g*g, decay*ms[i])
			mom[i] = mulAdd(mu, mom[i], lr*g/squareRoot(ms[i]+eps))
			w[i] -= mom[i]
		}
	},
	average: func(avg, w []float32, rest float32) {
		set(avg, func(i int) float32 { return mulAdd(rest, w[i]-avg[i], avg[i]) })
	},

	columnMoments: func(mean, squares, x []float32, rows, cols, ld int) {
		for j := range cols {
			mean[j] = chain(rows, 0, func(sum float32, i int) float32 { return sum + x[i*ld+j] }) / float32(rows)
			squares[j] = chain(rows, 0, func(sum float32, i int) float32 {
				d := x[i*ld+j] - mean[j]
				return mulAdd(d, d, sum)
			})
		}
	},
	normStats: func(mean, scale, moments []float32, rows, cols, ld int, eps float32) {
		defineStats(nil, nil, nil, mean, scale, moments, rows, cols, ld, eps)
	},
	normStatsTally: defineStats,
	normTotals: func(total, totalX, sums []float32, chunks, cols, ld int) {
		for j := range cols {
			total[j] = float32(chain(chunks, 0, func(sum float64, c int) float64 { return sum + float64(sums[2*c*ld+j]) }))
			totalX[j] = float32(chain(chunks, 0, func(sum float64, c int) float64 { return sum + float64(sums[(2*c+1)*ld+j]) }))
		}
	},
	batchNorm: func(y, x, mean, scale, gamma, beta []float32, rows, cols int) {
		defineBatchNorm(y, x, nil, mean, scale, gamma, beta, false)
	},
	batchNormRelu: func(y, x, mean, scale, gamma, beta []float32, rows, cols int) {
		defineBatchNorm(y, x, nil, mean, scale, gamma, beta, true)
	},
	batchNormAdd: func(y, x, add, mean, scale, gamma, beta []float32, rows, cols int) {
		defineBatchNorm(y, x, add, mean, scale, gamma, beta, false)
	},
	batchNormAddRelu: func(y, x, add, mean, scale, gamma, beta []float32, rows, cols int) {
		defineBatchNorm(y, x, add, mean, scale, gamma, beta, true)
	},
	batchNormEval: func(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
		defineBatchNorm(y, x, nil, mean, inverseDeviations(variance, eps), gamma, beta, false)
	},
	batchNormEvalRelu: func(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
		defineBatchNorm(y, x, nil, mean, inverseDeviations(variance, eps), gamma, beta, true)
	},
	batchNormEvalAdd: func(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
		defineBatchNorm(y, x, add, mean, inverseDeviations(variance, eps), gamma, beta, false)
	},
	batchNormEvalAddRelu: func(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32) {
		defineBatchNorm(y, x, add, mean, inverseDeviations(variance, eps), gamma, beta, true)
	},
	batchNormGradSums: func(sum, sumX, dy, x, mean, scale []float32, rows, cols, ld int) {
		defineBatchNormSums(sum, sumX, dy, x, mean, scale, nil, nil, rows, cols, ld)
	},
	batchNormReluGradSums: defineBatchNormSums,
	batchNormGrad: func(dx, dy, x, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32) {
		defineBatchNormGrad(dx, dy, x, nil, mean, scale, total, totalX, gamma, nil, rows, cols, share)
	},
	batchNormReluGrad: func(dx, dy, x, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32) {
		defineBatchNormGrad(dx, dy, x, nil, mean, scale, total, totalX, gamma, beta, rows, cols, share)
	},
	batchNormGradAdd: func(dx, dy, x, add, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32) {
		defineBatchNormGrad(dx, dy, x, add, mean, scale, total, totalX, gamma, nil, rows, cols, share)
	},
	batchNormReluGradAdd: defineBatchNormGrad,
}

// contractGemm and contractAttention have no tiles: each element is a chain.
var contractGemm = gemmTable{
	gemmBlocks: gemmBlocks{rows: 1, cols: 2, lines: 1, kc: 256, nc: 256},
	packRows:   packRowsGeneric, packColumns: packColumnsGeneric,
	panels: func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int) {
		setMatrix(c, rows, n, ldc, func(at, j int) float32 {
			a, b := a[at/ldc*aLine:], b[j/2*bPanel+j%2:]
			sum := chain(k, where(load, c[at], 0), func(sum float32, p int) float32 { return mulAdd(a[p*aStep], b[p*bStep], sum) })
			for run := more; len(run) > 0; run = run[runInts:] {
				a, b := a[run[runFrom]:], b[run[runRow]*bStep:]
				sum = chain(run[runK], sum, func(sum float32, p int) float32 { return mulAdd(a[p*aStep], b[p*bStep], sum) })
			}
			return sum
		})
	},
}

var contractAttention = attentionTable{
	mul: func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
		setMatrix(c, m, n, ldc, func(at, j int) float32 {
			return chain(k, where(accumulate, c[at], 0), func(sum float32, p int) float32 {
				return mulAdd(a[at/ldc*ars+p*acs], b[p*brs+j], sum)
			})
		})
	},
	transpose: func(dst []float32, ld int, src []float32, stride, rows, cols int) {
		setMatrix(dst, cols, rows, ld, func(at, i int) float32 { return src[i*stride+at/ld] })
	},
	gradRow: func(ds, p []float32, d, scale float32) {
		set(ds, func(i int) float32 { return (ds[i] - d) * p[i] * scale })
	},
}

// mulAdd returns a*b + c rounded once.
func mulAdd(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	return float32(roundToOdd(product, float64(c), product+float64(c)))
}

func set(dst []float32, element func(i int) float32) {
	for i := range dst {
		dst[i] = element(i)
	}
}

// setMatrix sets the elements of a matrix, at, which are in column j.
func setMatrix(dst []float32, rows, cols, ld int, element func(at, j int) float32) {
	for i := range rows {
		for j := range cols {
			dst[i*ld+j] = element(i*ld+j, j)
		}
	}
}

func where[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

// chain is a reduction in ascending order.
func chain[T any](n int, from T, add func(sum T, i int) T) T {
	for i := range n {
		from = add(from, i)
	}
	return from
}

// tree is a sum of n terms in lanes. Those of whole blocks of lanes go round the
// lanes; what is left goes to the first 16, a last group of less than 16 filled with
// zeros, for which add is called with i >= n. Then the lanes are added in halves.
func tree[T float32 | float64](n, lanes int, add func(sum T, i int) T) T {
	sums, whole := make([]T, lanes), n/lanes*lanes
	for i := range roundUp16(n) {
		lane := where(i < whole, i%lanes, (i-whole)%16)
		sums[lane] = add(sums[lane], i)
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for l := range half {
			sums[l] += sums[l+half]
		}
	}
	return sums[0]
}

// padded returns x[i], and 0 after the end of x.
func padded(x []float32, i int) float32 {
	if i < len(x) {
		return x[i]
	}
	return 0
}

func squareRoot(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func defineRelu(x float32) float32 { return where(x < 0, 0, x) }

// defineExp: exp(x) = 2^n e^r with n = round(x/ln 2), and the polynomial of e^r.
func defineExp(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, -104), 89)
	n := mulAdd(x, 0x1.715476p0, 0x1.8p23) - 0x1.8p23
	r := mulAdd(-n, 0x1.62e430p-1, x)
	r = mulAdd(-n, -0x1.05c610p-29, r)
	e := float32(0x1.6ac6b2p-10)
	for _, c := range []float32{0x1.123de0p-7, 0x1.555858p-5, 0x1.55548cp-3, 0x1.fffffcp-2, 1, 1} {
		e = mulAdd(e, r, c)
	}
	return float32(math.Ldexp(float64(e), int(n))) // rounded only if it is subnormal
}

func defineSigmoid(x float32) float32 {
	e := defineExp(where(x < 0, x, -x))
	return where(x < 0, e, 1) / (1 + e)
}

func defineTanh(x float32) float32 {
	size := where(x < 0, -x, x)
	if size <= 0.625 {
		z, p := x*x, float32(-0x1.75e1c2p-8)
		for _, c := range []float32{0x1.522698p-6, -0x1.b83c5ap-5, 0x1.110726p-3, -0x1.555532p-2} {
			p = mulAdd(p, z, c)
		}
		return mulAdd(x*z, p, x)
	}
	y := 1 - 2/(1+defineExp(2*size))
	return where(x < 0, -y, y)
}

func defineGelu(x float32) float32 { return x / (1 + defineExp(minusTwoU(x))) }

const minusTwoUSlope = -1.5957691216057308 // -2√(2/π)

func minusTwoU(x float32) float32 { return mulAdd(minusTwoUSlope*0.044715, x*x, minusTwoUSlope) * x }

func defineGeluSlope(x float32) float32 {
	x = where(x < -12, -12, where(x > 12, 12, x))
	s := 1 / (1 + defineExp(minusTwoU(x)))
	return mulAdd(-mulAdd(3*minusTwoUSlope*0.044715, x*x, minusTwoUSlope)*x, (1-s)*s, s)
}

func defineExpShift(dst, x []float32, scale, shift float32) float32 {
	set(dst, func(i int) float32 { return defineExp(mulAdd(x[i], scale, -shift)) })
	return tree(len(dst), 32, func(sum float32, i int) float32 { return sum + padded(dst, i) })
}

// inverseDeviations returns 1/√(variance + eps).
func inverseDeviations(variance []float32, eps float32) []float32 {
	scale := make([]float32, len(variance))
	set(scale, func(j int) float32 { return 1 / squareRoot(variance[j]+eps) })
	return scale
}

func defineNormalised(x, mean, scale float32) float32 { return (x - mean) * scale }

func defineLayerNorm(y, stats, x, gamma, beta []float32, rows, cols int, eps float32) {
	for r := range rows {
		x, y := x[r*cols:][:cols], y[r*cols:][:cols]
		mean := tree(cols, 64, func(sum float32, i int) float32 { return sum + padded(x, i) }) / float32(cols)
		squares := tree(cols, 64, func(sum float32, i int) float32 {
			d := where(i < cols, padded(x, i)-mean, 0)
			return mulAdd(d, d, sum)
		})
		scale := 1 / squareRoot(squares/float32(cols)+eps)
		stats[2*r], stats[2*r+1] = mean, scale
		set(y, func(j int) float32 { return mulAdd(defineNormalised(x[j], mean, scale), gamma[j], beta[j]) })
	}
}

func defineLayerNormGrad(dx, dy, x, gamma, stats, add []float32, rows, cols int) {
	for r := range rows {
		mean, scale := stats[2*r], stats[2*r+1]
		g, h := make([]float32, cols), make([]float32, cols)
		set(g, func(j int) float32 { return dy[r*cols+j] * gamma[j] })
		set(h, func(j int) float32 { return defineNormalised(x[r*cols+j], mean, scale) })
		meanG := tree(cols, 32, func(sum float32, i int) float32 { return sum + padded(g, i) }) / float32(cols)
		meanGH := tree(cols, 32, func(sum float32, i int) float32 { return mulAdd(padded(g, i), padded(h, i), sum) }) / float32(cols)
		set(dx[r*cols:][:cols], func(j int) float32 {
			d := mulAdd(-h[j], meanGH, g[j]-meanG)
			if add == nil {
				return d * scale
			}
			return mulAdd(d, scale, add[r*cols+j])
		})
	}
}

// defineRMSNorm defines RMSNorm and its gradients.
func defineRMSNorm(y, dx, dgamma, scale, x, dy, gamma []float32, rows, cols int, eps float32) {
	for r := range rows {
		x, dy := x[r*cols:][:cols], dy[r*cols:][:cols]
		squares := tree(cols, 64, func(sum float32, i int) float32 { return mulAdd(padded(x, i), padded(x, i), sum) })
		s := 1 / squareRoot(squares/float32(cols)+eps)
		scale[r] = s
		set(y[r*cols:][:cols], func(j int) float32 { return float32(x[j]*s) * gamma[j] })

		g := make([]float32, cols)
		set(g, func(j int) float32 { return dy[j] * gamma[j] })
		products := tree(cols, 64, func(sum float32, i int) float32 { return mulAdd(padded(g, i), padded(x, i), sum) })
		mean := float32(products*s) / float32(cols)
		set(dx[r*cols:][:cols], func(j int) float32 { return mulAdd(-float32(float32(mean*s)*s), x[j], float32(g[j]*s)) })
		set(dgamma, func(j int) float32 { return dgamma[j] + float32(dy[j]*float32(x[j]*s)) })
	}
}

// defineSwiGLU defines SwiGLU and its gradients.
func defineSwiGLU(y, dx, du, x, u, dy []float32) {
	for i := range y {
		s := defineSigmoid(x[i])
		y[i] = float32(s*x[i]) * u[i]
		dx[i] = float32(float32(float32(x[i]*float32((1-s)*s))+s)*u[i]) * dy[i]
		du[i] = float32(s*x[i]) * dy[i]
	}
}

// defineRotary defines Rotary with the sign 1, element by element.
func defineRotary(y, x, table []float32, rows, cols, headDim, first, period int) {
	for i := range rows * cols {
		within := i % cols % headDim
		pair := within % (headDim / 2)
		angles := table[(first+i/cols)%period*headDim:]
		cosine, sine := angles[pair], angles[headDim/2+pair]
		if within == pair { // the first of the pair
			y[i] = float32(x[i]*cosine) - float32(x[i+headDim/2]*sine)
		} else {
			y[i] = float32(x[i]*cosine) + float32(x[i-headDim/2]*sine)
		}
	}
}

// defineStats is in float64. All chunks but the last have NormChunk rows. Without a
// tally its slices are nil.
func defineStats(count, tallyMean, tallySquares []float64, mean, scale, moments []float32, rows, cols, ld int, eps float32) {
	last := (rows - 1) / NormChunk
	all, lastRows := float64(rows), float64(rows-last*NormChunk)
	for j := range cols {
		chunkMean := func(c int) float64 { return float64(moments[2*c*ld+j]) }
		chunkSquares := func(c int) float64 { return float64(moments[(2*c+1)*ld+j]) }
		m := chain(last, 0, func(sum float64, c int) float64 { return sum + chunkMean(c) })
		m = math.FMA(lastRows, chunkMean(last), float64(NormChunk*m)) / all
		within := chain(last+1, 0, func(sum float64, c int) float64 { return sum + chunkSquares(c) })
		between := chain(last, 0, func(sum float64, c int) float64 { return math.FMA(chunkMean(c)-m, chunkMean(c)-m, sum) })
		d := chunkMean(last) - m
		squares := math.FMA(lastRows, float64(d*d), math.FMA(NormChunk, between, within))
		mean[j], scale[j] = float32(m), float32(1/math.Sqrt(squares/all+float64(eps)))
		if count == nil {
			continue
		}
		share, d := all/(count[j]+all), m-tallyMean[j]
		tallyMean[j] = math.FMA(share, d, tallyMean[j])
		tallySquares[j] = math.FMA(float64(count[j]*share), float64(d*d), squares+tallySquares[j])
		count[j] += all
	}
}

// defineBatchNorm: add may be nil.
func defineBatchNorm(y, x, add, mean, scale, gamma, beta []float32, relu bool) {
	cols := len(gamma)
	set(y, func(i int) float32 {
		j := i % cols
		v := mulAdd(defineNormalised(x[i], mean[j], scale[j]), gamma[j], beta[j])
		if add != nil {
			v += add[i]
		}
		return where(relu, defineRelu(v), v)
	})
}

// passed returns the gradient that comes through relu, which is missing if beta
// is nil.
func passed(dy, h float32, gamma, beta []float32, j int) float32 {
	return where(beta == nil || mulAdd(h, gamma[j], beta[j]) > 0, dy, 0)
}

func defineBatchNormSums(sum, sumX, dy, x, mean, scale, gamma, beta []float32, rows, cols, ld int) {
	for j := range cols {
		sum[j], sumX[j] = 0, 0
		for at := j; at < j+rows*ld; at += ld {
			h := defineNormalised(x[at], mean[j], scale[j])
			dz := passed(dy[at], h, gamma, beta, j)
			sum[j], sumX[j] = sum[j]+dz, mulAdd(dz, h, sumX[j])
		}
	}
}

func defineBatchNormGrad(dx, dy, x, add, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32) {
	setMatrix(dx, rows, cols, cols, func(at, j int) float32 {
		h := defineNormalised(x[at], mean[j], scale[j])
		d := mulAdd(-h, totalX[j]*share, passed(dy[at], h, gamma, beta, j)-float32(total[j]*share))
		if add == nil {
			return d * (gamma[j] * scale[j])
		}
		return mulAdd(d, gamma[j]*scale[j], add[at])
	})
}
