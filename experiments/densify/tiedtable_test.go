package densify

import (
	"math"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
)

// official is the paper's table: TensorFlow's vocabulary, 5000 tokens a rank.
var official = tiedTable{Vocab: 33_708, Dim: 1024, Source: 5000, Target: 5000}

// The paper's sizes, by hand: 43,708 rows of 4096 bytes a rank.
func TestTiedTableBytes(t *testing.T) {
	for ranks, want := range map[int]int64{1: 179_027_968, 4: 716_111_872, 8: 1_432_223_744, 16: 2_864_447_488, 32: 5_728_894_976, 64: 11_457_789_952} {
		testkit.Equal(t, official.GatheredBytes(ranks), want, "%d ranks gather", ranks)
		testkit.Equal(t, official.IndexBytes(ranks), want/1024, "%d ranks: bytes of indices", ranks)
	}
	testkit.Equal(t, official.DenseBytes(), 138_067_968, "dense")
	testkit.Near(t, float64(official.GatheredBytes(64))/float64(official.DenseBytes()), 82.99, 0.005, "times the dense gradient")
}

// At 12.5 GB/s a ring of 64 ranks needs 902 ms for the gather and 21.7 ms for the
// reduction; one rank needs nothing; latency is counted once a message.
func TestTiedTableSeconds(t *testing.T) {
	link := clock.Link{Bandwidth: 12.5e9}
	testkit.Near(t, official.GatherSeconds(64, link), 0.9023, 5e-5, "gather, s")
	testkit.Near(t, reduceSeconds(64, official.DenseBytes(), link), 0.02175, 5e-6, "reduce, s")
	testkit.Near(t, official.GatherSeconds(1, link), 0, 0, "gather of one, s")
	testkit.Near(t, reduceSeconds(1, official.DenseBytes(), link), 0, 0, "reduce of one, s")
	link.Latency = 1e-3
	testkit.Near(t, official.GatherSeconds(64, link), 0.9023+63e-3, 5e-5, "gather with latency, s")
	testkit.Near(t, reduceSeconds(64, official.DenseBytes(), link), 0.02175+126e-3, 5e-6, "reduce with latency, s")
}

// The most ranks under a limit fit, and one more does not.
func TestTiedTableLimits(t *testing.T) {
	for unit, want := range map[int]int{1: 11, 4: 47} {
		n := official.MostCounted(unit)
		if n != want || official.GatheredBytes(n)/int64(unit) > math.MaxInt32 || official.GatheredBytes(n+1)/int64(unit) <= math.MaxInt32 {
			t.Errorf("counted in %d bytes: %d ranks, want %d", unit, n, want)
		}
	}
	const memory = 192 << 30
	n := official.MostHeld(memory, 4, 2)
	if n != 143 || 8*official.GatheredBytes(n) > memory || 8*official.GatheredBytes(n+1) <= memory {
		t.Errorf("held: %d ranks", n)
	}
}
