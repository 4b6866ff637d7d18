package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}

var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// laneMasks sets the masks to the lanes before n: mask j has the lanes 16j to
// 16j+15.
func laneMasks(n Register, masks ...OpmaskPhysical) {
	v := ZMM()
	VPBROADCASTD(n.(GPVirtual).As32(), v)
	table := laneNumbers()
	for j, k := range masks {
		VPCMPGTD(table.Offset(64*j), v, k)
	}
}

// laneMask is laneMasks for AVX2: the sign bits of mask's eight lanes.
func laneMask(n Register, mask VecPhysical) {
	VMOVD(n.(GPVirtual).As32(), mask.AsX())
	VPBROADCASTD(mask.AsX(), mask)
	VPCMPGTD(laneNumbers(), mask, mask)
}

var laneTable Mem

// laneNumbers is a table of 0 to 31 as int32.
func laneNumbers() Mem {
	if laneTable.Symbol.Name == "" {
		laneTable = GLOBL("attentionLanes", RODATA|NOPTR)
		for i := range 32 {
			DATA(4*i, U32(i))
		}
	}
	return laneTable
}
