// Package crc32c is CRC-32C (Castagnoli) as hash/crc32 has it, for long inputs several times as
// fast where the processor multiplies polynomials 512 bits at a time (VPCLMULQDQ with AVX-512).
//
// A block that lies D bits before another may be replaced by one that is added to the latter:
// its remainder times x^D, modulo the polynomial. So four blocks of 64 bytes run along the
// input side by side, and hash/crc32 sums the last four (V. Gopal et al., Fast CRC Computation
// for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009). In long inputs the CRC32
// instruction sums a third of the bytes beside them, in cycles in which the multiplier is busy.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the sum of b.
func Checksum(b []byte) uint32 { return Update(0, b) }

// Update is the sum of what sum is of, followed by b.
func Update(sum uint32, b []byte) uint32 {
	if folds && len(b) >= least {
		sum, b = folded(sum, b)
	}
	return crc32.Update(sum, table, b)
}

const (
	stride = 4 * 64      // how many bytes are folded at a time
	least  = 32 * stride // how many are summed faster so
)
