package datasets

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

// A shuffle is an order, and stays the one on which records rest.
func TestShuffleIsAnOrder(t *testing.T) {
	sum := sha256.New()
	key := philox.KeyOf(1, "shuffle")
	for _, n := range []int{1, 2, 3, 4, 5, 15, 16, 17, 100, 1023, 1024, 1025, 5000} {
		s := newShuffle(n, key, 9)
		seen := make([]bool, n)
		for i := range n {
			x := s.at(i)
			if x < 0 || x >= n || seen[x] {
				t.Fatalf("n %d: place %d holds %d, out of range or a second time", n, i, x)
			}
			seen[x] = true
			fmt.Fprintln(sum, x)
		}
	}
	testkit.Equal(t, fmt.Sprintf("%x", sum.Sum(nil)[:8]), "11cc0266d32e22c0", "digest")
	if x := newShuffle(math.MaxInt32, key, 9).at(math.MaxInt32 - 1); x < 0 || x >= math.MaxInt32 {
		t.Errorf("largest shuffle holds %d", x)
	}
}
