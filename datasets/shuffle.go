package datasets

import (
	"math/bits"

	"gpipebench/nn/philox"
)

// shuffle is a random order of 0..n-1 that is computed one position at a time,
// so that an epoch of any size takes no memory and can be entered anywhere: a
// balanced Feistel network (Luby and Rackoff, 1988) over the next even power of
// two, with Philox as its round function, followed along its cycle until the
// value is below n (Black and Rogaway, Ciphers with Arbitrary Finite Domains,
// CT-RSA 2002).
type shuffle struct {
	n     uint64
	half  uint32 // bits in each half
	key   philox.Key
	tweak uint64 // each gives another order
}

const shuffleRounds = 8

func newShuffle(n int, key philox.Key, tweak uint64) shuffle {
	return shuffle{n: uint64(n), half: uint32(bits.Len64(uint64(n-1))+1) / 2, key: key, tweak: tweak}
}

// at returns the number at position i, 0 <= i < n.
func (s shuffle) at(i int) int {
	x := uint64(i)
	for {
		if x = s.encrypt(x); x < s.n {
			return int(x)
		}
	}
}

// encrypt is a bijection on the numbers of 2*half bits.
func (s shuffle) encrypt(x uint64) uint64 {
	mask := uint32(1)<<s.half - 1
	left, right := uint32(x>>s.half), uint32(x)&mask
	for round := range uint32(shuffleRounds) {
		f := philox.Block(s.key, [4]uint32{right, round, uint32(s.tweak), uint32(s.tweak >> 32)})
		left, right = right, left^f[0]&mask
	}
	return uint64(left)<<s.half | uint64(right)
}
