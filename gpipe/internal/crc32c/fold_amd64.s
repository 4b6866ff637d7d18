//go:build !purego

#include "textflag.h"

// The four blocks of a stride, at DI, and the factors, at BX.
#define LOAD \
	VBROADCASTI32X4 (BX), Z8; \
	VMOVDQU64 (DI), Z0; \
	VMOVDQU64 64(DI), Z1; \
	VMOVDQU64 128(DI), Z2; \
	VMOVDQU64 192(DI), Z3

#define STORE \
	VMOVDQU64 Z0, (DI); \
	VMOVDQU64 Z1, 64(DI); \
	VMOVDQU64 Z2, 128(DI); \
	VMOVDQU64 Z3, 192(DI)

// func fold(last *[256]byte, b []byte, factors *[2]uint64)
TEXT ·fold(SB), NOSPLIT, $0-40
	MOVQ last+0(FP), DI
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ factors+32(FP), BX
	LOAD

next:
	// The products of both halves, and the input a stride on.
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ $256, SI
	SUBQ $256, CX
	JNZ  next

	STORE
	VZEROUPPER
	RET

// func foldBeside(last *[256]byte, b []byte, factors *[2]uint64, sums *[3]uint64)
//
// Three streams of CRC32Q run beside the fold, in cycles that VPCLMULQDQ leaves idle: 40 bytes of
// each for 256 bytes of b.
TEXT ·foldBeside(SB), NOSPLIT, $0-48
	MOVQ last+0(FP), DI
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ factors+32(FP), BX
	LOAD
	LEAQ (CX)(CX*4), R9 // a stream has 40 bytes for 256
	SHRQ $5, R9
	LEAQ (SI)(CX*1), R10
	LEAQ (R10)(R9*1), R11
	LEAQ (R11)(R9*1), R12
	XORQ AX, AX
	XORQ DX, DX
	XORQ R8, R8

beside:
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	CRC32Q 0(R10), AX
	CRC32Q 0(R11), DX
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	CRC32Q 0(R12), R8
	CRC32Q 8(R10), AX
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	CRC32Q 8(R11), DX
	CRC32Q 8(R12), R8
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	CRC32Q 16(R10), AX
	CRC32Q 16(R11), DX
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	CRC32Q 16(R12), R8
	CRC32Q 24(R10), AX
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	CRC32Q 24(R11), DX
	CRC32Q 24(R12), R8
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	CRC32Q 32(R10), AX
	CRC32Q 32(R11), DX
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	CRC32Q 32(R12), R8
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ $40, R10
	ADDQ $40, R11
	ADDQ $40, R12
	ADDQ $256, SI
	SUBQ $256, CX
	JNZ  beside

	STORE
	MOVQ sums+40(FP), DI
	MOVQ AX, (DI)
	MOVQ DX, 8(DI)
	MOVQ R8, 16(DI)
	VZEROUPPER
	RET

// func shift(sum, factor uint64) uint64
TEXT ·shift(SB), NOSPLIT, $0-24
	MOVQ sum+0(FP), X0
	MOVQ factor+8(FP), X1
	PCLMULQDQ $0, X1, X0
	MOVQ X0, AX
	XORQ DX, DX
	CRC32Q AX, DX
	MOVQ DX, ret+16(FP)
	RET
