// Command gemm writes the assembly below Gemm: the multiplication of panels
// and their packing, for AVX2 with FMA and for AVX-512.
//
// It is run by go generate in the kernel package.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	table := maskTable()
	for _, m := range []machine{avx512(), avx2(table)} {
		panels(m)
		packRows(m)
	}
	packColumns(table)
	vendor()
	Generate()
}

// vendor writes the function that asks the processor for its vendor's name.
func vendor() {
	TEXT("vendor", NOSPLIT, "func() uint32")
	Doc("vendor returns the first four letters of the name of the processor's vendor, the first in the lowest byte.")
	XORL(reg.EAX, reg.EAX)
	CPUID()
	Store(reg.EBX, ReturnIndex(0))
	RET()
}
