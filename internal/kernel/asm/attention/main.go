// Command attention writes the assembly of the kernels below scaled dot-product
// attention, for AVX2 with FMA and for AVX-512.
//
// It is run by go generate in the kernel package.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	for _, rows := range []int{8, 4, 2, 1} {
		mulAVX512(rows)
	}
	for _, rows := range []int{4, 2, 1} {
		mulAVX2(rows)
	}
	transposeAVX512()
	transposeAVX2()
	gradRow("AVX512", zmm, 64)
	gradRow("AVX2", ymm, 32)
	Generate()
}
