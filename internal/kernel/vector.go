package kernel

// A vectorTable is one implementation of the vector kernels. The exported
// function of the same name documents an entry; rowMax to softmaxGrad process
// one row.
type vectorTable struct {
	add, mul              func(dst, a, b []float32)
	scale                 func(dst, a []float32, s float32)
	addScaled             func(dst, a, b []float32, s float32)
	addRelu               func(dst, a, b []float32)
	relu, gelu            func(dst, x []float32)
	reluGrad, geluGrad    func(dst, dy, x []float32)
	exp, sigmoid, tanh    func(dst, x []float32)
	sigmoidGrad, tanhGrad func(dst, dy, y []float32)
	clip                  func(dst, x []float32, limit float32)
	clipGrad              func(dst, dy, x []float32, limit float32)
	addBias, addBiasRelu  func(dst, x, bias []float32, rows, cols, ld int)
	addBiasGelu           func(dst, x, bias []float32, rows, cols, ld int)
	colSum                func(acc, x []float32, rows, cols, ld int)
	rowMax, rowSum        func(x []float32) float32
	dot                   func(a, b []float32) float32
	expShift              func(dst, x []float32, scale, shift float32) float32
	expSum                func(x []float32, scale, shift float32) float32
	softmaxGrad           func(dst, x []float32, lse, offset, scale float32)
	sumSquares            func(x []float32) float64
	nonFinite             func(x []float32) int // start of the block with the first one, or -1
	layerNorm             func(y, stats, x, gamma, beta []float32, rows, cols int, eps float32)
	layerNormGrad         func(dx, dy, x, gamma, stats []float32, rows, cols int)
	layerNormGradAdd      func(dx, dy, x, gamma, stats, add []float32, rows, cols int)
	layerNormParamGrad    func(dgamma, dbeta, dy, x, stats []float32, rows, cols, ld int)
	dropout               func(dst, x []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32)
	dropoutAdd            func(dst, x, add []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32)
	sgd                   func(w, g []float32, lr, s, l2 float32)
	momentum, nesterov    func(w, v, g []float32, lr, mu, s, l2 float32)
	rmsprop               func(w, ms, mom, g []float32, decay, rest, mu, eps, lr, s, l2 float32)
	average               func(avg, w []float32, rest float32)
	adam                  func(w, m, v, g []float32, beta1, rest1, beta2, rest2, eps, step, root, shrink, s, l2 float32)
	columnMoments         func(mean, squares, x []float32, rows, cols, ld int)
	normStats             func(mean, scale, moments []float32, rows, cols, ld int, eps float32)
	normStatsTally        func(count, tallyMean, tallySquares []float64, mean, scale, moments []float32, rows, cols, ld int, eps float32)
	normTotals            func(total, totalX, sums []float32, chunks, cols, ld int)
	batchNorm             func(y, x, mean, scale, gamma, beta []float32, rows, cols int)
	batchNormRelu         func(y, x, mean, scale, gamma, beta []float32, rows, cols int)
	batchNormAdd          func(y, x, add, mean, scale, gamma, beta []float32, rows, cols int)
	batchNormAddRelu      func(y, x, add, mean, scale, gamma, beta []float32, rows, cols int)
	batchNormEval         func(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32)
	batchNormEvalRelu     func(y, x, mean, variance, gamma, beta []float32, rows, cols int, eps float32)
	batchNormEvalAdd      func(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32)
	batchNormEvalAddRelu  func(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32)
	batchNormGradSums     func(sum, sumX, dy, x, mean, scale []float32, rows, cols, ld int)
	batchNormReluGradSums func(sum, sumX, dy, x, mean, scale, gamma, beta []float32, rows, cols, ld int)
	batchNormGrad         func(dx, dy, x, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32)
	batchNormReluGrad     func(dx, dy, x, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32)
	batchNormGradAdd      func(dx, dy, x, add, mean, scale, total, totalX, gamma []float32, rows, cols int, share float32)
	batchNormReluGradAdd  func(dx, dy, x, add, mean, scale, total, totalX, gamma, beta []float32, rows, cols int, share float32)
	maxPool               func(y, x []float32, pixels, cols, step, kh, kw, row int)
	maxPoolGrad           func(dx, dy, x, y []float32, pixels, cols, ld, step, kh, kw, row int)
	avgPool               func(y, x []float32, pixels, cols, step, kh, kw, row int, share float32)
	avgPoolGrad           func(dx, dy []float32, pixels, cols, ld, step, kh, kw, row int, share float32)
	depthwise             func(y, x, w []float32, pixels, cols, to, from, kh, kw, tap, skip, first, wtap, wskip int)
	depthwiseGrad         func(dw, x, dy []float32, pixels, cols, to, from, kh, kw, tap, skip, wtap, wskip int)
	copyColumns           func(dst, src []float32, rows, cols, ldd, lds int)
	widen                 func(dst []float32, src []uint16)
	narrow                func(dst []uint16, src []float32)
	roundBF16             func(dst, src []float32)
}

var genericVector = vectorTable{
	add:                   addGeneric,
	mul:                   mulGeneric,
	scale:                 scaleGeneric,
	addScaled:             addScaledGeneric,
	addRelu:               addReluGeneric,
	relu:                  reluGeneric,
	gelu:                  geluGeneric,
	reluGrad:              reluGradGeneric,
	geluGrad:              geluGradGeneric,
	clip:                  clipGeneric,
	clipGrad:              clipGradGeneric,
	exp:                   expGeneric,
	sigmoid:               sigmoidGeneric,
	tanh:                  tanhGeneric,
	sigmoidGrad:           sigmoidGradGeneric,
	tanhGrad:              tanhGradGeneric,
	addBias:               addBiasGeneric,
	addBiasRelu:           addBiasReluGeneric,
	addBiasGelu:           addBiasGeluGeneric,
	colSum:                colSumGeneric,
	rowMax:                rowMaxGeneric,
	rowSum:                rowSumGeneric,
	dot:                   dotGeneric,
	sumSquares:            sumSquaresGeneric,
	nonFinite:             nonFiniteGeneric,
	expShift:              expShiftGeneric,
	expSum:                expSumGeneric,
	softmaxGrad:           softmaxGradGeneric,
	layerNorm:             layerNormGeneric,
	layerNormGrad:         layerNormGradGeneric,
	layerNormGradAdd:      layerNormGradAddGeneric,
	layerNormParamGrad:    layerNormParamGradGeneric,
	dropout:               dropoutGeneric,
	dropoutAdd:            dropoutAddGeneric,
	sgd:                   sgdGeneric,
	momentum:              momentumGeneric,
	nesterov:              nesterovGeneric,
	rmsprop:               rmspropGeneric,
	average:               averageGeneric,
	adam:                  adamGeneric,
	columnMoments:         columnMomentsGeneric,
	normStats:             normStatsGeneric,
	normStatsTally:        normStatsTallyGeneric,
	normTotals:            normTotalsGeneric,
	batchNorm:             batchNormGeneric,
	batchNormRelu:         batchNormReluGeneric,
	batchNormAdd:          batchNormAddGeneric,
	batchNormAddRelu:      batchNormAddReluGeneric,
	batchNormEval:         batchNormEvalGeneric,
	batchNormEvalRelu:     batchNormEvalReluGeneric,
	batchNormEvalAdd:      batchNormEvalAddGeneric,
	batchNormEvalAddRelu:  batchNormEvalAddReluGeneric,
	batchNormGradSums:     batchNormGradSumsGeneric,
	batchNormReluGradSums: batchNormReluGradSumsGeneric,
	batchNormGrad:         batchNormGradGeneric,
	batchNormReluGrad:     batchNormReluGradGeneric,
	batchNormGradAdd:      batchNormGradAddGeneric,
	batchNormReluGradAdd:  batchNormReluGradAddGeneric,
	maxPool:               maxPoolGeneric,
	maxPoolGrad:           maxPoolGradGeneric,
	avgPool:               avgPoolGeneric,
	avgPoolGrad:           avgPoolGradGeneric,
	depthwise:             depthwiseGeneric,
	depthwiseGrad:         depthwiseGradGeneric,
	copyColumns:           copyColumnsGeneric,
	widen:                 widenGeneric,
	narrow:                narrowGeneric,
	roundBF16:             roundBF16Generic,
}
