package mlperf

import (
	"errors"
	"strings"
	"testing"

	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
	"gpipebench/lab/exchange"
	"gpipebench/lab/exchange/exchangetest"
)

// Both ways end with the bits of the definition on every rank, each time that they repeat,
// and with the bytes of an all-reduce.
func TestSumsBothWays(t *testing.T) {
	sizes := []int{3, 70_000, 1, 65_536, 900, 5, 300_000, 64}
	for ranks := 2; ranks <= 5; ranks++ {
		for _, times := range []int{1, 3} {
			all := make([][][]float32, ranks) // by rank, then tensor
			for rank := range all {
				all[rank] = (&gradientSum{Sizes: sizes, Seed: 7}).draw(rank)
			}
			var want []float32
			for i := range sizes {
				for range times {
					var of [][]float32
					for rank := range all {
						of = append(of, all[rank][i])
					}
					sum := reduction.Sum(of)
					for rank := range all {
						all[rank][i] = sum
					}
				}
				want = append(want, all[0][i]...)
			}
			for _, way := range sumWays {
				var received int64
				for rank, outcomes := range exchangetest.Run[gradientsSummed](t, ranks, &gradientSum{Sizes: sizes, Way: way, Seed: 7, Times: times}) {
					o := outcomes[rank]
					if o.SHA256 != exchange.Digest(want) || o.Rank != rank || len(o.Sums) != times || len(o.Copies) != times {
						t.Errorf("%v, rank %d of %d, %d times: %+v", way, rank, ranks, times, o)
					}
					received += o.Received
				}
				testkit.Equal(t, received, 4*2*int64(ranks-1)*int64(len(want)), "%v, %d ranks: bytes travelled", way, ranks)
			}
		}
	}
}

func TestSumRefused(t *testing.T) {
	over := transport.InProcess()
	for says, j := range map[string]*gradientSum{
		"0 tensors":               {Times: 1},
		"tensor 1 has 0 elements": {Sizes: []int{1, 0}, Way: pipelined, Times: 1},
		"want first or pipelined": {Sizes: []int{1}, Way: "last", Times: 1},
		"0 times":                 {Sizes: []int{1}},
	} {
		var u *failure.UsageError
		if _, err := exchange.Run(t.Context(), over, 2, 0, j); !errors.As(err, &u) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	testkit.Refused(exchange.Run(t.Context(), over, 1, 0, &gradientSum{Sizes: []int{1}, Times: 1}))(t, "two ranks")
}
