//go:build !purego

package kernel

//go:generate go run -C asm ./vector -out ../vector_amd64.s -stubs ../vector_stubs_amd64.go -pkg kernel

// vectorTables returns what this processor can run, fastest first.
func vectorTables() []*vectorTable {
	var t []*vectorTable
	if hasAVX512 {
		t = append(t, &avx512Vector)
	}
	if hasAVX2 {
		t = append(t, &avx2Vector)
	}
	return append(t, &genericVector)
}

var avx512Vector = vectorTable{
	profile:            "avx512",
	add:                addAVX512,
	mul:                mulAVX512,
	scale:              scaleAVX512,
	addScaled:          addScaledAVX512,
	relu:               reluAVX512,
	gelu:               geluAVX512,
	reluGrad:           reluGradAVX512,
	geluGrad:           geluGradAVX512,
	clip:               clipAVX512,
	clipGrad:           clipGradAVX512,
	addBias:            addBiasAVX512,
	addBiasRelu:        addBiasReluAVX512,
	addBiasGelu:        addBiasGeluAVX512,
	colSum:             colSumAVX512,
	rowMax:             rowMaxAVX512,
	rowSum:             rowSumAVX512,
	dot:                dotAVX512,
	expShift:           expShiftAVX512,
	expSum:             expSumAVX512,
	softmaxGrad:        softmaxGradAVX512,
	sumSquares:         sumSquaresAVX512,
	nonFinite:          nonFiniteAVX512,
	layerNorm:          layerNormAVX512,
	layerNormGrad:      layerNormGradAVX512,
	layerNormGradAdd:   layerNormGradAddAVX512,
	layerNormParamGrad: layerNormParamGradAVX512,
	dropout:            dropoutAVX512,
	dropoutAdd:         dropoutAddAVX512,
	sgd:                sgdAVX512,
	momentum:           momentumAVX512,
	nesterov:           nesterovAVX512,
	rmsprop:            rmspropAVX512,
	average:            averageAVX512,
	adam:               adamAVX512,
}

var avx2Vector = vectorTable{
	profile:            "avx2",
	add:                addAVX2,
	mul:                mulAVX2,
	scale:              scaleAVX2,
	addScaled:          addScaledAVX2,
	relu:               reluAVX2,
	gelu:               geluAVX2,
	reluGrad:           reluGradAVX2,
	geluGrad:           geluGradAVX2,
	clip:               clipAVX2,
	clipGrad:           clipGradAVX2,
	addBias:            addBiasAVX2,
	addBiasRelu:        addBiasReluAVX2,
	addBiasGelu:        addBiasGeluAVX2,
	colSum:             colSumAVX2,
	rowMax:             rowMaxAVX2,
	rowSum:             rowSumAVX2,
	dot:                dotAVX2,
	expShift:           expShiftAVX2,
	expSum:             expSumAVX2,
	softmaxGrad:        softmaxGradAVX2,
	sumSquares:         sumSquaresAVX2,
	nonFinite:          nonFiniteAVX2,
	layerNorm:          layerNormAVX2,
	layerNormGrad:      layerNormGradAVX2,
	layerNormGradAdd:   layerNormGradAddAVX2,
	layerNormParamGrad: layerNormParamGradAVX2,
	dropout:            dropoutAVX2,
	dropoutAdd:         dropoutAddAVX2,
	sgd:                sgdAVX2,
	momentum:           momentumAVX2,
	nesterov:           nesterovAVX2,
	rmsprop:            rmspropAVX2,
	average:            averageAVX2,
	adam:               adamAVX2,
}
