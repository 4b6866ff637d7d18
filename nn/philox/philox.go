// Package philox is the counter-based random number generator Philox4x32-10
// (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3,
// SC 2011). A number is a pure function of a key and a counter, so it does not
// matter which thread or device draws it, or when.
package philox

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"gpipebench/internal/kernel/exactmath"
)

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
	// FNV's low bits mix weakly into its high ones; one round of splitmix64
	// mixes them.
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return Key{uint32(h), uint32(h >> 32)}
}

// Hash is a number that depends on nothing but a text: its key from seed 0.
func Hash(text string) uint64 {
	k := KeyOf(0, text)
	return uint64(k[1])<<32 | uint64(k[0])
}

// Stream draws numbers one after another from one key, with the counters (n,
// index), of 64 bits each, n from 0. A Stream is a value and can be copied.
type Stream struct {
	key  Key
	ctr  [4]uint32
	buf  [4]uint32
	left int
}

// NewStream returns the stream of a key. Streams of one key with different
// indices never overlap.
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

// Uint64 returns the next two words, the first in the low half. It makes a
// Stream a math/rand/v2 Source.
func (s *Stream) Uint64() uint64 {
	lo := uint64(s.Uint32())
	return lo | uint64(s.Uint32())<<32
}

// Float64 returns a number in [0, 1) with 53 random bits.
func (s *Stream) Float64() float64 { return float64(float64(s.Uint64()>>11) * 0x1p-53) }

// Skip advances the stream by n words, as n calls of Uint32 would.
func (s *Stream) Skip(n uint64) {
	if n <= uint64(s.left) {
		s.left -= int(n)
		return
	}
	n -= uint64(s.left)
	s.left = 0
	counter := (uint64(s.ctr[1])<<32 | uint64(s.ctr[0])) + n/4
	s.ctr[0], s.ctr[1] = uint32(counter), uint32(counter>>32)
	for range n % 4 {
		s.Uint32()
	}
}

// The numbers of words that one call takes, for Fill.
const (
	Float64Words = 2
	NormalWords  = 2 * Float64Words
)

// fillPart is the number of draws that Fill gives a core at a time.
const fillPart = 1 << 14

// Fill fills dst as len(dst) successive calls of draw(s) would, and advances s
// past them. Each call of draw must take exactly the given number of words. As
// a number is a function of its place in the stream, all cores draw. Only the
// caller's goroutine writes to dst, since it alone may be prepared for memory
// faults beyond the end of the mapped memory.
func (s *Stream) Fill(dst []float32, words int, draw func(*Stream) float32) {
	if len(dst) < 2*fillPart {
		for i := range dst {
			dst[i] = draw(s)
		}
		return
	}
	drawn := make([]float32, runtime.GOMAXPROCS(0)*fillPart)
	for len(dst) > 0 {
		drawn = drawn[:min(len(drawn), len(dst))]
		var wait sync.WaitGroup
		for part := range slices.Chunk(drawn, fillPart) {
			own := *s
			s.Skip(uint64(len(part)) * uint64(words))
			wait.Go(func() {
				for i := range part {
					part[i] = draw(&own)
				}
			})
		}
		wait.Wait()
		dst = dst[copy(dst, drawn):]
	}
}

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

// Normal returns a standard normal number (Box-Muller, only the cosine half, so
// that every number takes the same count of words).
func (s *Stream) Normal() float64 {
	u := 1 - s.Float64() // (0, 1]
	v := s.Float64()
	return math.Sqrt(-2*exactmath.Log(u)) * exactmath.Cos(2*math.Pi*v)
}
