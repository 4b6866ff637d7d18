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
	profile:   "avx512",
	add:       addAVX512,
	mul:       mulAVX512,
	scale:     scaleAVX512,
	addScaled: addScaledAVX512,
	relu:      reluAVX512,
	reluGrad:  reluGradAVX512,
	clip:      clipAVX512,
	clipGrad:  clipGradAVX512,
	rowMax:    rowMaxAVX512,
	rowSum:    rowSumAVX512,
	dot:       dotAVX512,
	expShift:  expShiftAVX512,
	expSum:    expSumAVX512,
}

var avx2Vector = vectorTable{
	profile:   "avx2",
	add:       addAVX2,
	mul:       mulAVX2,
	scale:     scaleAVX2,
	addScaled: addScaledAVX2,
	relu:      reluAVX2,
	reluGrad:  reluGradAVX2,
	clip:      clipAVX2,
	clipGrad:  clipGradAVX2,
	rowMax:    rowMaxAVX2,
	rowSum:    rowSumAVX2,
	dot:       dotAVX2,
	expShift:  expShiftAVX2,
	expSum:    expSumAVX2,
}
