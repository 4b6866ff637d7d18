// Package philox is the counter-based random number generator Philox4x32-10
// (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3,
// SC 2011). A number is a pure function of a key and a counter, so who draws
// it, when, and on which device does not matter.
package philox

import "math"

const (
	mul0, mul1   = 0xD2511F53, 0xCD9E8D57
	weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
)

// Key selects a stream.
type Key [2]uint32

// Block returns the four words of the counter c under key k.
func Block(k Key, c [4]uint32) [4]uint32 {
	for range 10 {
		p0 := uint64(mul0) * uint64(c[0])
		p1 := uint64(mul1) * uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1), uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0)}
		k[0] += weyl0
		k[1] += weyl1
	}
	return c
}

// KeyOf derives a key from a seed and a name (a layer's path, a data set's
// name) by FNV-1a over the name, started from the seed.
func KeyOf(seed uint64, name string) Key {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for range 8 {
		h = (h ^ seed&0xff) * prime
		seed >>= 8
	}
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	// FNV's low bits mix weakly into its high ones; one round of splitmix64 evens it out.
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return Key{uint32(h), uint32(h >> 32)}
}

// Stream draws numbers one after another from one key: counter (n, 0, hi).
// The zero counter is the start; a Stream is a value and can be copied.
type Stream struct {
	key  Key
	ctr  [4]uint32
	buf  [4]uint32
	left int
}

// NewStream returns the stream of a key. Streams of one key with different
// index never meet.
func NewStream(k Key, index uint64) *Stream {
	return &Stream{key: k, ctr: [4]uint32{0, 0, uint32(index), uint32(index >> 32)}}
}

// Uint32 returns the next word.
func (s *Stream) Uint32() uint32 {
	if s.left == 0 {
		s.buf = Block(s.key, s.ctr)
		if s.ctr[0]++; s.ctr[0] == 0 {
			s.ctr[1]++
		}
		s.left = 4
	}
	v := s.buf[4-s.left]
	s.left--
	return v
}

// Uint64 returns the next two words, the first in the low half. With it a
// Stream is a math/rand/v2 Source.
func (s *Stream) Uint64() uint64 {
	lo := uint64(s.Uint32())
	return lo | uint64(s.Uint32())<<32
}

// Float64 returns a number in [0, 1) with 53 random bits.
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// Intn returns a number in [0, n), n > 0, by Lemire's multiplication with rejection.
func (s *Stream) Intn(n int) int {
	if n <= 0 || n > math.MaxInt32 {
		panic("philox: Intn: n out of range")
	}
	bound := uint32(n)
	threshold := -bound % bound
	for {
		p := uint64(s.Uint32()) * uint64(bound)
		if uint32(p) >= threshold {
			return int(p >> 32)
		}
	}
}

// Normal returns a standard normal number (Box-Muller, the cosine half, so
// that a number costs a fixed count of words).
func (s *Stream) Normal() float64 {
	u := 1 - s.Float64() // (0, 1]
	v := s.Float64()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}
