package reduction

import (
	"math/bits"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
)

// Kind is a modelled all-reduce.
type Kind uint8

const (
	// Tree is recursive halving and doubling: as many bytes as a ring, in 2 log2 n
	// messages. It adds as this package does.
	Tree Kind = iota
	// Ring sends 1/n of the data to the next of n neighbours 2 (n-1) times. The order of
	// its additions depends on n, so it is only modelled.
	Ring
	// Torus is two-dimensional: a ring along X, then one along Y on 1/X of the data (Ying
	// et al. 2018, "Image Classification at Supercomputer Scale", section 3). Only
	// modelled.
	Torus
)

var kinds = [...]string{"tree", "ring", "2d"}

func (k Kind) String() string { return named.String(k, kinds[:], "Kind") }

// ParseKind reads what String writes.
func ParseKind(s string) (Kind, error) { return named.Parse[Kind](s, kinds[:], "all-reduce") }

// Cost is the time of an all-reduce of bytes over x*y ranks whose neighbours are
// connected by the link: of its first half, after which the sums are divided over the
// ranks, and of its second. Only Torus distinguishes x and y. A rank sends in one
// direction at a time, and additions take no time of their own.
func Cost(k Kind, x, y int, bytes float64, link clock.Link) (reduce, gather float64) {
	ring := func(n int, bytes float64, messages int) float64 {
		if n < 2 {
			return 0
		}
		t := float64(float64(messages) * link.Latency)
		if link.Bandwidth > 0 {
			t += float64(n-1) / float64(n) * bytes / link.Bandwidth
		}
		if link.ThroughHost {
			t *= 2 // two legs
		}
		return t
	}
	var half float64
	switch n := x * y; k {
	case Tree:
		half = ring(n, bytes, bits.Len(uint(n-1)))
	case Ring:
		half = ring(n, bytes, n-1)
	case Torus:
		half = ring(x, bytes, x-1) + ring(y, bytes/float64(x), y-1)
	}
	return half, half
}

// Groups are ranks in groups of neighbours, such as the devices of nodes, with a near link in each
// group and a far one of each rank between them.
type Groups struct {
	Size      int // ranks of a group, consecutive ones; 0: all are in one
	Near, Far clock.Link
}

// Cost prices a ring all-reduce of bytes over n ranks, in whole groups: each group adds up by
// itself, then each rank its share of the data with those of its share in the other groups.
func (g Groups) Cost(n int, bytes float64) (reduce, gather float64) {
	size := n
	if g.Size > 0 {
		size = min(n, g.Size)
	}
	reduce, gather = Cost(Ring, size, 1, bytes, g.Near)
	if groups := (n + size - 1) / size; groups > 1 {
		r, g := Cost(Ring, groups, 1, bytes/float64(size), g.Far)
		reduce, gather = reduce+r, gather+g
	}
	return reduce, gather
}
