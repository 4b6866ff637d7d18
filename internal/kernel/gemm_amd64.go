//go:build !purego

package kernel

//go:generate go run -C asm ./gemm -out ../gemm_amd64.s -stubs ../gemm_stubs_amd64.go -pkg kernel

// gemmTables returns the tables that this processor can run, fastest first.
func gemmTables() []*gemmTable {
	var t []*gemmTable
	if hasAVX512 {
		t = append(t, &avx512Gemm)
	}
	if hasAVX2 {
		t = append(t, &avx2Gemm)
	}
	return append(t, &genericGemm)
}

// amd is how the vendor's name of AMD's processors begins.
const amd = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24

var avx512Gemm = gemmTable{
	profile:     "avx512",
	gemmBlocks:  planned,
	strided:     true,
	far:         vendor() == amd, // measured on Zen 5; on Intel's, packing is faster
	panels:      gemmPanelsAVX512,
	packRows:    gemmPackRowsAVX512,
	packColumns: gemmPackColumns,
}

var avx2Gemm = gemmTable{
	profile:     "avx2",
	gemmBlocks:  gemmBlocks{rows: 6, cols: 16, lines: 16, kc: 256, nc: 512},
	strided:     true,
	panels:      gemmPanelsAVX2,
	packRows:    gemmPackRowsAVX2,
	packColumns: gemmPackColumns,
}
