//go:build !purego

package kernel

//go:generate go run -C asm ./vector -out ../vector_amd64.s -stubs ../vector_stubs_amd64.go -pkg kernel

var avx512Vector = vectorTable{
	add: addAVX512, mul: mulAVX512, scale: scaleAVX512, addScaled: addScaledAVX512, addRelu: addReluAVX512,
	relu: reluAVX512, gelu: geluAVX512, reluGrad: reluGradAVX512, geluGrad: geluGradAVX512, clip: clipAVX512, clipGrad: clipGradAVX512,
	exp: expAVX512, sigmoid: sigmoidAVX512, tanh: tanhAVX512, sigmoidGrad: sigmoidGradAVX512, tanhGrad: tanhGradAVX512,
	addBias: addBiasAVX512, addBiasRelu: addBiasReluAVX512, addBiasGelu: addBiasGeluAVX512, colSum: colSumAVX512,
	rowMax: rowMaxAVX512, rowSum: rowSumAVX512, dot: dotAVX512, sumSquares: sumSquaresAVX512, nonFinite: nonFiniteAVX512,
	expShift: expShiftAVX512, expSum: expSumAVX512, softmaxGrad: softmaxGradAVX512,
	layerNorm: layerNormAVX512, layerNormGrad: layerNormGradAVX512, layerNormGradAdd: layerNormGradAddAVX512, layerNormParamGrad: layerNormParamGradAVX512,
	dropout: dropoutAVX512, dropoutAdd: dropoutAddAVX512,
	sgd: sgdAVX512, momentum: momentumAVX512, nesterov: nesterovAVX512, rmsprop: rmspropAVX512, average: averageAVX512, adam: adamAVX512,
	columnMoments: columnMomentsAVX512, normStats: normStatsAVX512, normStatsTally: normStatsTallyAVX512, normTotals: normTotalsAVX512,
	batchNorm: batchNormAVX512, batchNormRelu: batchNormReluAVX512, batchNormAdd: batchNormAddAVX512, batchNormAddRelu: batchNormAddReluAVX512,
	batchNormEval: batchNormEvalAVX512, batchNormEvalRelu: batchNormEvalReluAVX512, batchNormEvalAdd: batchNormEvalAddAVX512, batchNormEvalAddRelu: batchNormEvalAddReluAVX512,
	batchNormGradSums: batchNormGradSumsAVX512, batchNormReluGradSums: batchNormReluGradSumsAVX512,
	batchNormGrad: batchNormGradAVX512, batchNormReluGrad: batchNormReluGradAVX512, batchNormGradAdd: batchNormGradAddAVX512, batchNormReluGradAdd: batchNormReluGradAddAVX512,
	maxPool: maxPoolAVX512, maxPoolGrad: maxPoolGradAVX512, avgPool: avgPoolAVX512, avgPoolGrad: avgPoolGradAVX512,
	depthwise: depthwiseAVX512, depthwiseGrad: depthwiseGradAVX512,
	copyColumns: copyColumnsAVX512, widen: widenAVX512, narrow: narrowAVX512, roundBF16: roundBF16AVX512,
}

var avx2Vector = vectorTable{
	add: addAVX2, mul: mulAVX2, scale: scaleAVX2, addScaled: addScaledAVX2, addRelu: addReluAVX2,
	relu: reluAVX2, gelu: geluAVX2, reluGrad: reluGradAVX2, geluGrad: geluGradAVX2, clip: clipAVX2, clipGrad: clipGradAVX2,
	exp: expAVX2, sigmoid: sigmoidAVX2, tanh: tanhAVX2, sigmoidGrad: sigmoidGradAVX2, tanhGrad: tanhGradAVX2,
	addBias: addBiasAVX2, addBiasRelu: addBiasReluAVX2, addBiasGelu: addBiasGeluAVX2, colSum: colSumAVX2,
	rowMax: rowMaxAVX2, rowSum: rowSumAVX2, dot: dotAVX2, sumSquares: sumSquaresAVX2, nonFinite: nonFiniteAVX2,
	expShift: expShiftAVX2, expSum: expSumAVX2, softmaxGrad: softmaxGradAVX2,
	layerNorm: layerNormAVX2, layerNormGrad: layerNormGradAVX2, layerNormGradAdd: layerNormGradAddAVX2, layerNormParamGrad: layerNormParamGradAVX2,
	dropout: dropoutAVX2, dropoutAdd: dropoutAddAVX2,
	sgd: sgdAVX2, momentum: momentumAVX2, nesterov: nesterovAVX2, rmsprop: rmspropAVX2, average: averageAVX2, adam: adamAVX2,
	columnMoments: columnMomentsAVX2, normStats: normStatsAVX2, normStatsTally: normStatsTallyAVX2, normTotals: normTotalsAVX2,
	batchNorm: batchNormAVX2, batchNormRelu: batchNormReluAVX2, batchNormAdd: batchNormAddAVX2, batchNormAddRelu: batchNormAddReluAVX2,
	batchNormEval: batchNormEvalAVX2, batchNormEvalRelu: batchNormEvalReluAVX2, batchNormEvalAdd: batchNormEvalAddAVX2, batchNormEvalAddRelu: batchNormEvalAddReluAVX2,
	batchNormGradSums: batchNormGradSumsAVX2, batchNormReluGradSums: batchNormReluGradSumsAVX2,
	batchNormGrad: batchNormGradAVX2, batchNormReluGrad: batchNormReluGradAVX2, batchNormGradAdd: batchNormGradAddAVX2, batchNormReluGradAdd: batchNormReluGradAddAVX2,
	maxPool: maxPoolAVX2, maxPoolGrad: maxPoolGradAVX2, avgPool: avgPoolAVX2, avgPoolGrad: avgPoolGradAVX2,
	depthwise: depthwiseAVX2, depthwiseGrad: depthwiseGradAVX2,
	copyColumns: copyColumnsAVX2, widen: widenAVX2, narrow: narrowAVX2, roundBF16: roundBF16AVX2,
}
