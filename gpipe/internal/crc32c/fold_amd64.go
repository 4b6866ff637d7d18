//go:build !purego

package crc32c

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"golang.org/x/sys/cpu"
)

var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// factors move the first and the second half of 16 bytes on by a stride: x^(D+32) and x^(D-32)
// modulo the polynomial, with bits in reverse order and one place on, as the product of two
// numbers of which bit 63 is the lowest power has its own in bit 126.
var factors = [2]uint64{power(8*stride + 32), power(8*stride - 32)}

// power is x^n modulo the polynomial, as factors have it.
func power(n int) uint64 {
	rest := uint32(1)
	for range n {
		carry := rest >> 31
		rest = rest<<1 ^ carry*bits.Reverse32(crc32.Castagnoli)
	}
	return uint64(bits.Reverse32(rest)) << 1
}

// folded is the sum of all strides, and what is left.
func folded(sum uint32, b []byte) (uint32, []byte) {
	n := len(b) &^ (stride - 1)
	var last [stride]byte
	copy(last[:], b)
	binary.LittleEndian.PutUint32(last[:], binary.LittleEndian.Uint32(last[:])^^sum)
	fold(&last, b[stride:n], &factors)
	return crc32.Update(1<<32-1, table, last[:]), b[n:]
}

// fold moves last on along b, stride by stride, of which there is one at least.
//
//go:noescape
func fold(last *[stride]byte, b []byte, factors *[2]uint64)
