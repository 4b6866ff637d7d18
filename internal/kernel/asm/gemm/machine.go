package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A machine is an instruction set in the view of the kernels.
type machine struct {
	name  string
	lanes int
	rows  int   // of the largest tile, see tile
	packs []int // the widths of packed panels, in vectors
	vec   []VecPhysical
	zero  func(v Op)

	// setMask sets a mask to the lanes l with from+l < count, and load moves
	// those lanes and zeros the others.
	masks   [2]Op
	setMask func(mask Op, count Register, from int)
	load    func(mem, mask, v Op)

	// keepMask stores the mask of the first (n-1)%lanes+1 lanes where a
	// multiplication does not overwrite it, kept loads it with the help of a
	// spare vector, and store stores its lanes.
	keepMask func(n Op)
	kept     func(spare Op) Op
	store    func(v, mask, mem Op)
}

func avx512() machine {
	return machine{
		name:  "AVX512",
		lanes: 16,
		rows:  14,
		packs: []int{1, 2},
		vec: []VecPhysical{
			Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
			Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
		},
		zero:  func(v Op) { VPXORD(v, v, v) },
		masks: [2]Op{K1, K2},
		setMask: func(mask Op, count Register, from int) {
			bits := GP32()
			lanesFrom(count, from, 16, RCX)
			MOVL(U32(1), bits)
			SHLL(CL, bits)
			DECL(bits)
			KMOVW(bits, mask)
		},
		load: func(mem, mask, v Op) { VMOVUPS_Z(mem, mask, v) },
		keepMask: func(n Op) {
			bits := GP32()
			MOVQ(n, RCX)
			NEGQ(RCX)
			ANDQ(U32(15), RCX)
			MOVL(U32(0xffff), bits)
			SHRL(CL, bits)
			KMOVW(bits, K1)
		},
		kept:  func(Op) Op { return K1 },
		store: func(v, mask, mem Op) { VMOVUPS(v, mask, mem) },
	}
}

var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

func avx2(table Mem) machine {
	var place Register
	return machine{
		name:  "AVX2",
		lanes: 8,
		rows:  6,
		packs: []int{2},
		vec:   ymm,
		zero:  func(v Op) { VXORPS(v, v, v) },
		masks: [2]Op{Y14, Y15},
		setMask: func(mask Op, count Register, from int) {
			setMaskAVX2(table, mask, count, from)
		},
		load: func(mem, mask, v Op) { VMASKMOVPS(mem, mask, v) },
		keepMask: func(n Op) {
			place = GP64()
			missing := GP64()
			MOVQ(n, missing)
			NEGQ(missing)
			ANDQ(U32(7), missing)
			LEAQ(table, place)
			LEAQ(Mem{Base: place, Index: missing, Scale: 4}, place)
		},
		kept: func(spare Op) Op {
			VMOVUPS(Mem{Base: place}, spare)
			return spare
		},
		store: func(v, mask, mem Op) { VMASKMOVPS(v, mask, mem) },
	}
}

// maskTable declares eight lanes of ones, then eight of zeros: read from j
// lanes after the start, it is the mask of the first 8-j lanes.
func maskTable() Mem {
	table := GLOBL("gemmMasks", RODATA|NOPTR)
	for i := range 16 {
		lane := U32(0)
		if i < 8 {
			lane = 1<<32 - 1
		}
		DATA(4*i, lane)
	}
	return table
}

func setMaskAVX2(table Mem, mask Op, count Register, from int) {
	have, start := GP64(), GP64()
	lanesFrom(count, from, 8, have)
	NEGQ(have)
	LEAQ(table, start)
	VMOVUPS(Mem{Base: start, Index: have, Scale: 4, Disp: 4 * 8}, mask)
}

// lanesFrom sets have to count-from, limited to [0, limit].
func lanesFrom(count Register, from, limit int, have Register) {
	bound := GP64()
	MOVQ(count, have)
	SUBQ(U32(from), have)
	MOVQ(U32(0), bound)
	CMPQ(have, bound)
	CMOVQLT(bound, have)
	MOVQ(U32(limit), bound)
	CMPQ(have, bound)
	CMOVQGT(bound, have)
}
