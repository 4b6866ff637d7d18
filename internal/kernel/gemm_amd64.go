//go:build !purego

package kernel

//go:generate go run -C asm ./gemm -out ../gemm_amd64.s -stubs ../gemm_stubs_amd64.go -pkg kernel

// amd is how the vendor's name of AMD's processors begins.
const amd = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24

var avx512Gemm = gemmTable{
	gemmBlocks:  planned,
	strided:     true,
	far:         vendor() == amd, // measured on Zen 5; on Intel's, packing is faster
	panels:      gemmPanelsAVX512,
	packRows:    gemmPackRowsAVX512,
	packColumns: gemmPackColumns,
}

var avx2Gemm = gemmTable{
	gemmBlocks:  gemmBlocks{rows: 6, cols: 16, lines: 16, kc: 256, nc: 512},
	strided:     true,
	panels:      gemmPanelsAVX2,
	packRows:    gemmPackRowsAVX2,
	packColumns: gemmPackColumns,
}
