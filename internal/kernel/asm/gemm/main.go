// Command gemm writes the assembly below Gemm: the multiplication of panels
// and their packing, for AVX2 with FMA and for AVX-512.
//
// It is run by go generate in the kernel package.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	table := maskTable()
	for _, m := range []machine{avx512(), avx2(table)} {
		panels(m)
		packRows(m)
	}
	packColumns(table)
	Generate()
}
