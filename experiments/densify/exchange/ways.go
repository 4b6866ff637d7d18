package exchange

import (
	"context"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/party"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/kernel"
)

// gather has all ranks' rows and indices in the end, and adds them up where they lie. The
// sum is the first rank's table.
func gather(ctx context.Context, p *party.Party, j Job, o *Outcome) ([]float32, error) {
	rows := int(j.Table.Rows())
	values, index := make([]float32, p.Ranks()*rows*j.Table.Dim), make([]float32, p.Ranks()*rows)
	kernel.Zero(values) // so that the memory is there before anything is timed
	of := func(rank int) gradient {
		n := rows * j.Table.Dim
		return gradient{j.Table, values[rank*n : (rank+1)*n], index[rank*rows : (rank+1)*rows]}
	}
	of(p.Rank()).draw(j.Seed, p.Rank())
	if err := p.Begin(); err != nil {
		return nil, err
	}
	if err := party.Timed(&o.Exchange, func() error {
		own := of(p.Rank())
		return p.WithOthers(
			func(ctx context.Context, other int) error {
				return p.Send(ctx, other, 0, [][]float32{own.values, own.index})
			},
			func(ctx context.Context, other int) error {
				theirs := of(other)
				return p.Receive(ctx, other, 0, [][]float32{theirs.values, theirs.index})
			})
	}); err != nil {
		return nil, err
	}
	o.Held, o.Indices = 4*int64(len(values)), 4*int64(len(index))
	err := party.Timed(&o.Sum, func() error {
		var scratch [2][]int32
		tables := make([][]float32, p.Ranks())
		for rank := range tables {
			g := of(rank)
			g.densify(&scratch)
			tables[rank] = g.table()
		}
		addUp(tables)
		return nil
	})
	return of(0).table(), err
}

// reduce adds its tokens' rows to its table, and the tables of all ranks by an all-reduce.
func reduce(ctx context.Context, p *party.Party, j Job, o *Outcome) ([]float32, error) {
	rows := int(j.Table.Rows())
	own := gradient{j.Table, make([]float32, rows*j.Table.Dim), make([]float32, rows)}
	own.draw(j.Seed, p.Rank())
	layout := reduction.NewLayout([]int{len(own.table())})
	a := reduction.AllReduce{Layout: layout, Peers: p}
	if p.Ranks() > 1 {
		for range reduction.Buffers(p.Ranks(), p.Rank(), false) {
			buffer := make([]float32, layout.LargestMessage(p.Ranks(), p.Rank()))
			kernel.Zero(buffer)
			a.Buffers = append(a.Buffers, buffer)
		}
	}
	if err := p.Begin(); err != nil {
		return nil, err
	}
	_ = party.Timed(&o.Densify, func() error {
		var scratch [2][]int32
		own.densify(&scratch)
		return nil
	})
	sum := own.table()
	o.Held = 4 * int64(len(sum))
	if p.Ranks() == 1 {
		return sum, nil
	}
	return sum, party.Timed(&o.Exchange, func() error {
		tensors := [][]float32{sum}
		if err := a.Reduce(ctx, tensors); err != nil {
			return err
		}
		return a.Gather(ctx, tensors)
	})
}

// Ways are the ways to accumulate a table's gradient over ranks: the one that the paper
// finds, and the one that it puts in its place.
func Ways() []accumulate.Way { return []accumulate.Way{accumulate.Gather, accumulate.Reduce} }
