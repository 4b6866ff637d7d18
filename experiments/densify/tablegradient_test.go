package densify

import (
	"context"
	"errors"
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
	"gpipebench/lab/exchange"
	"gpipebench/lab/exchange/exchangetest"
)

// plainSum is the definition: on each side a table from zero, to which the rows of tokens are
// added in their order; both sides and the softmax; then the tree over ranks.
func plainSum(table tiedTable, ranks int, seed uint64) []float32 {
	var all [][]float32
	for rank := range ranks {
		rows := int(table.Rows())
		g := tableGradient{table, make([]float32, rows*table.Dim), make([]float32, rows)}
		g.draw(seed, rank)
		sides := [2][]float32{make([]float32, len(g.table())), make([]float32, len(g.table()))}
		for i := table.Vocab; i < rows; i++ {
			side := 0
			if i >= table.Vocab+table.Source {
				side = 1
			}
			for c, v := range g.row(i) {
				sides[side][g.token(i)*table.Dim+c] += v
			}
		}
		sum := make([]float32, len(g.table()))
		for i, v := range g.table() {
			sum[i] = sides[0][i] + sides[1][i] + v
		}
		all = append(all, sum)
	}
	return reduction.Sum(all)
}

// Both ways end with the bits of the definition on every rank, and with as many bytes as
// the formulas say.
func TestAccumulatesBothWays(t *testing.T) {
	for _, table := range []tiedTable{
		{Vocab: 37, Dim: 5, Source: 50, Target: 31},
		{Vocab: 3000, Dim: 64, Source: 100, Target: 0}, // several messages a rank
		{Vocab: 1, Dim: 1, Source: 0, Target: 3},
	} {
		for ranks := 1; ranks <= 9; ranks++ {
			want := exchange.Digest(plainSum(table, ranks, 7))
			for _, way := range tableWays {
				travels := int64(0)
				for rank, all := range exchangetest.Run[rankAccumulated](t, ranks, &accumulationJob{table, way, 7}) {
					o := all[rank]
					testkit.Equal(t, o.SHA256, want, "%+v, %v, rank %d of %d: other bits than the definition", table, way, rank, ranks)
					travels += o.Received
					held, indices := table.DenseBytes(), int64(0)
					if way == gpipe.GatherTied {
						held, indices = table.GatheredBytes(ranks), table.IndexBytes(ranks)
						own := table.GatheredBytes(1) + table.IndexBytes(1)
						testkit.Equal(t, o.Received+own, held+indices, "%+v, rank %d of %d: bytes received and its own", table, rank, ranks)
					}
					testkit.Equal(t, o.Held, held, "%+v, %v, rank %d of %d: bytes", table, way, rank, ranks)
					testkit.Equal(t, o.Indices, indices, "%+v, %v, rank %d of %d: bytes of indices", table, way, rank, ranks)
				}
				want := table.ReduceTravels(ranks)
				if way == gpipe.GatherTied {
					want = table.GatherTravels(ranks)
				}
				testkit.Equal(t, travels, want, "%+v, %v: bytes that travel between %d ranks", table, way, ranks)
			}
		}
	}
}

// The gradients are such that an order of additions shows: rows of one token, and ranks,
// in another order have other bits; and no value is -0.
func TestOrderOfRowsShows(t *testing.T) {
	table := tiedTable{Vocab: 37, Dim: 5, Source: 50, Target: 31}
	rows := int(table.Rows())
	g := tableGradient{table, make([]float32, rows*table.Dim), make([]float32, rows)}
	g.draw(7, 0)
	for _, v := range g.values {
		if v == 0 && math.Signbit(float64(v)) || v < -1 || v > 1 {
			t.Fatalf("a value of %v", v)
		}
	}
	want := exchange.Digest(plainSum(table, 1, 7))
	backwards := make([]float32, len(g.table()))
	copy(backwards, g.table())
	for i := rows - 1; i >= table.Vocab; i-- {
		for c, v := range g.row(i) {
			backwards[g.token(i)*table.Dim+c] += v
		}
	}
	if exchange.Digest(backwards) == want {
		t.Error("rows in another order have the same sum")
	}
	var ranks [3][]float32
	for rank := range ranks {
		own := tableGradient{table, make([]float32, rows*table.Dim), make([]float32, rows)}
		own.draw(7, rank)
		var scratch [2][]int32
		own.densify(&scratch)
		ranks[rank] = own.table()
	}
	if exchange.Digest(reduction.Sum(ranks[:])) == exchange.Digest(reduction.Sum([][]float32{ranks[1], ranks[2], ranks[0]})) {
		t.Error("ranks in another order have the same sum")
	}
}

func TestAccumulationRefuses(t *testing.T) {
	table := tiedTable{Vocab: 3, Dim: 2}
	for says, j := range map[string]*accumulationJob{
		"accumulated by TableGradients(2): want reduce or gather": {table, passThrough, 1},
		"a table of 0 rows": {tiedTable{Dim: 2}, gpipe.GatherTied, 1},
	} {
		_, err := exchange.Run(t.Context(), transport.InProcess(), 1, 0, j)
		var of *failure.UsageError
		testkit.Fails(t, err, says)
		testkit.Equal(t, errors.As(err, &of), true, "a mistake of usage: %v", err)
	}
	// A rank that ends lets none wait.
	ends := transport.Ends(2, func(p place.Place) int { return p.Replica })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := exchange.Run(ctx, ends[0], 2, 0, &accumulationJob{table, gpipe.GatherTied, 1})
	testkit.Is(t, err, context.Canceled)
	testkit.Refused(exchange.Run(t.Context(), ends[1], 2, 1, &accumulationJob{table, gpipe.GatherTied, 1}))(t)
}
