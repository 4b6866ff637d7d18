//go:build !purego

package crc32c

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"sync"

	"golang.org/x/sys/cpu"
)

var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// A piece of a long input is one stride, 512 more that are folded into it, and three streams, of
// which CRC32Q sums 40 bytes each while a stride is folded.
const (
	steps  = 512
	stream = steps * 40
	piece  = (1+steps)*stride + 3*stream
)

// factors move the first and the second half of 16 bytes on by a stride: x^(D+32) and x^(D-32)
// modulo the polynomial, with bits in reverse order and one place on, as the product of two
// numbers of which bit 63 is the lowest power has its own in bit 126.
var factors = [2]uint64{power(8*stride + 32), power(8*stride - 32)}

// along moves a sum on by a stream. It takes a while to find, so not when a program starts.
var along = sync.OnceValue(func() uint64 { return power(8*stream - 32) })

// power is x^n modulo the polynomial, as factors have it.
func power(n int) uint64 {
	rest := uint32(1)
	for range n {
		carry := rest >> 31
		rest = rest<<1 ^ carry*bits.Reverse32(crc32.Castagnoli)
	}
	return uint64(bits.Reverse32(rest)) << 1
}

// folded is the sum of all pieces and strides, and what is left.
func folded(sum uint32, b []byte) (uint32, []byte) {
	for len(b) >= piece {
		last := first(sum, b)
		var sums [3]uint64
		foldBeside(&last, b[stride:(1+steps)*stride], &factors, &sums)
		rest := uint64(^crc32.Update(1<<32-1, table, last[:]))
		for _, s := range sums {
			rest = shift(rest, along()) ^ s
		}
		sum, b = ^uint32(rest), b[piece:]
	}
	n := len(b) &^ (stride - 1)
	if n < 2*stride {
		return sum, b
	}
	last := first(sum, b)
	fold(&last, b[stride:n], &factors)
	return crc32.Update(1<<32-1, table, last[:]), b[n:]
}

// first is the first stride of b, to which sum, of what is before it, is added.
func first(sum uint32, b []byte) (last [stride]byte) {
	copy(last[:], b)
	binary.LittleEndian.PutUint32(last[:], binary.LittleEndian.Uint32(last[:])^^sum)
	return last
}

// fold moves last on along b, stride by stride, at least one.
//
//go:noescape
func fold(last *[stride]byte, b []byte, factors *[2]uint64)

// foldBeside is fold, and sums, from 0, of the three streams that follow b.
//
//go:noescape
func foldBeside(last *[stride]byte, b []byte, factors *[2]uint64, sums *[3]uint64)

// shift is sum times factor and x^32 modulo the polynomial.
func shift(sum, factor uint64) uint64
