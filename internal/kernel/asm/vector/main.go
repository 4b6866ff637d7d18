// Command vector writes the assembly of the vector kernels, each for AVX2 with
// FMA and for AVX-512, from one description, and the tables of all of them.
//
// A kernel processes its operands in blocks of a few vectors, then in single
// vectors, then in one vector under a mask, always with the same instructions,
// so that an element's bits do not depend on which of the three it belongs to.
//
// It is run by go generate in the kernel package.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	for _, m := range []machine{avx2, avx512} {
		elementwise(m)
		gelu(m)
		logistic(m)
		columns(m)
		rowReductions(m)
		softmax(m)
		norms(m)
		batchNorms(m)
		batchNormStats(m)
		pools(m)
		dropout(m)
		optimizers(m)
		depthwise(m)
		bf16(m)
	}
	Generate()
	tables("..")
}
