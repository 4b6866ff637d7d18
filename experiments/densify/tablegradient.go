package densify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/kernel"
	"gpipebench/internal/machine"
	"gpipebench/lab/exchange"
	"gpipebench/nn/philox"
)

// accumulationName is the registered name of accumulationJob.
const accumulationName = "accumulate"

func init() { exchange.Register(accumulationName, func() exchange.Job { return &accumulationJob{} }) }

// accumulationJob accumulates the gradient of a tied table over ranks, by a gather and by a
// reduction, with the same bits. Nothing is trained: the gradients are random numbers of the
// sizes that tiedTable states.
//
// Each rank has the rows of the softmax, which are all of the table's, then those of the
// source's tokens, then those of the target's. Within a rank the rows of one token are
// added in ascending order of the tokens, on each side by itself; then the target's sum
// is added to the source's, and the softmax's row to that. Ranks are added up by the tree
// of package reduction. A gather has no other order of additions than a reduction has, so
// the paper's change of one into the other changes no bit.
//
// A gather's rows arrive where they are added up, so a rank needs no memory for them but
// that of [tiedTable.GatheredBytes], and that of their indices.
type accumulationJob struct {
	Table tiedTable
	Way   gpipe.TableGradients
	Seed  uint64
}

// rankAccumulated is what one rank has done.
type rankAccumulated struct {
	Rank int `json:"rank"`
	// Bytes of the accumulated gradient as the rank has it after the exchange: of values,
	// and of indices.
	Held    int64 `json:"held_bytes"`
	Indices int64 `json:"index_bytes"`
	// Received is how many bytes of tensors have come from other ranks.
	Received int64 `json:"received_bytes"`
	// Seconds of the three parts, one after another. A reduction first turns rows into a
	// tensor, and adds up while it exchanges. A gather adds up afterwards.
	Densify  float64 `json:"densify_seconds"`
	Exchange float64 `json:"exchange_seconds"`
	Sum      float64 `json:"sum_seconds"`
	// Resident is the most memory that the process has had, and Program what of it there was
	// before it had any gradients: the program and its connections; 0 if that is unknown. Of
	// ranks that share a process both cover all of them.
	Resident int64  `json:"resident_bytes"`
	Program  int64  `json:"program_bytes"`
	SHA256   string `json:"sha256"` // of the sum, in little-endian order
}

// seconds returns the seconds of all parts.
func (o *rankAccumulated) seconds() float64 { return o.Densify + o.Exchange + o.Sum }

func (j *accumulationJob) Validate(ranks int) error {
	t := j.Table
	switch {
	case !slices.Contains(tableWays, j.Way):
		return fmt.Errorf("a table's gradient is accumulated by %v: want %v or %v", j.Way, gpipe.ReduceTied, gpipe.GatherTied)
	case t.Vocab < 1 || t.Dim < 1 || t.Source < 0 || t.Target < 0 || ranks < 1:
		return fmt.Errorf("a table of %d rows and %d columns, %d and %d tokens, %d ranks: want 1 or more of each, and tokens from 0", t.Vocab, t.Dim, t.Source, t.Target, ranks)
	}
	return nil
}

func (j *accumulationJob) Run(ctx context.Context, p *exchange.Party) (any, error) {
	o := rankAccumulated{Rank: p.Rank(), Program: machine.MaxRSS()}
	way := j.reduce
	if j.Way == gpipe.GatherTied {
		way = j.gather
	}
	sum, err := way(ctx, p, &o)
	if err != nil {
		return nil, err
	}
	o.Received, o.Resident, o.SHA256 = p.Received(), machine.MaxRSS(), exchange.Digest(sum)
	return o, nil
}

// gather has all ranks' rows and indices in the end, and adds them up where they lie. The
// sum is the first rank's table.
func (j *accumulationJob) gather(_ context.Context, p *exchange.Party, o *rankAccumulated) ([]float32, error) {
	rows := int(j.Table.Rows())
	values, index := make([]float32, p.Ranks()*rows*j.Table.Dim), make([]float32, p.Ranks()*rows)
	kernel.Zero(values) // so that the memory is there before anything is timed
	of := func(rank int) tableGradient {
		n := rows * j.Table.Dim
		return tableGradient{j.Table, values[rank*n : (rank+1)*n], index[rank*rows : (rank+1)*rows]}
	}
	of(p.Rank()).draw(j.Seed, p.Rank())
	if err := p.Begin(); err != nil {
		return nil, err
	}
	if err := exchange.Timed(&o.Exchange, func() error {
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
	err := exchange.Timed(&o.Sum, func() error {
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
func (j *accumulationJob) reduce(ctx context.Context, p *exchange.Party, o *rankAccumulated) ([]float32, error) {
	rows := int(j.Table.Rows())
	own := tableGradient{j.Table, make([]float32, rows*j.Table.Dim), make([]float32, rows)}
	own.draw(j.Seed, p.Rank())
	sum := own.table()
	allReduce := p.AllReduce(len(sum))
	if err := p.Begin(); err != nil {
		return nil, err
	}
	_ = exchange.Timed(&o.Densify, func() error {
		var scratch [2][]int32
		own.densify(&scratch)
		return nil
	})
	o.Held = 4 * int64(len(sum))
	if p.Ranks() == 1 {
		return sum, nil
	}
	return sum, exchange.Timed(&o.Exchange, func() error { return allReduce(ctx, [][]float32{sum}) })
}

// tableGradient is a rank's, as rows: those of the softmax, of the source's tokens and of the
// target's. Indices are whole numbers in the bits of values, as only values travel; those
// of the softmax count from 0.
type tableGradient struct {
	of     tiedTable
	values []float32 // Rows() of Dim each
	index  []float32 // one a row
}

// draw makes a rank's gradient: uniform values from -1 to 1, none of which is -0, so that
// nothing must be added to a row that no token reads; and tokens of which small ones are
// frequent.
func (g tableGradient) draw(seed uint64, rank int) {
	values := philox.NewStream(philox.KeyOf(seed, "densify/values"), uint64(rank))
	values.Fill(g.values, 1, func(s *philox.Stream) float32 { return float32(int32(s.Uint32())) * 0x1p-31 })
	tokens := philox.NewStream(philox.KeyOf(seed, "densify/tokens"), uint64(rank))
	for i := range g.index {
		token := i
		if i >= g.of.Vocab {
			u := tokens.Float64()
			token = min(int(u*u*u*float64(g.of.Vocab)), g.of.Vocab-1)
		}
		g.index[i] = math.Float32frombits(uint32(token))
	}
}

// row is the row of the table or of a token, counted through all of them.
func (g tableGradient) row(i int) []float32 {
	return g.values[i*g.of.Dim : (i+1)*g.of.Dim : (i+1)*g.of.Dim]
}

// token is the row of the table that a row is of.
func (g tableGradient) token(i int) int { return int(math.Float32bits(g.index[i])) }

// table are the rows of the softmax.
func (g tableGradient) table() []float32 { return g.values[:g.of.Vocab*g.of.Dim] }

// none is where no row of a token has been seen.
const none = -1

// densify adds the rows of tokens to the table's, where they lie: those of one token are
// first added up, in their order, in the first of them. scratch has an element for each
// row of the table on either side; it makes the same arrays serve all ranks.
func (g tableGradient) densify(scratch *[2][]int32) {
	from := g.of.Vocab
	for side, count := range [2]int{g.of.Source, g.of.Target} {
		first := slices.Grow(scratch[side][:0], g.of.Vocab)[:g.of.Vocab]
		scratch[side] = first
		for i := range first {
			first[i] = none
		}
		for i := from; i < from+count; i++ {
			token := g.token(i)
			if first[token] == none {
				first[token] = int32(i)
				continue
			}
			sum := g.row(int(first[token]))
			kernel.Add(sum, sum, g.row(i))
		}
		from += count
	}
	for token := range g.of.Vocab {
		source, target, sum := scratch[0][token], scratch[1][token], g.row(token)
		switch {
		case source != none && target != none:
			both := g.row(int(source))
			kernel.Add(both, both, g.row(int(target)))
			kernel.Add(sum, both, sum)
		case source != none:
			kernel.Add(sum, g.row(int(source)), sum)
		case target != none:
			kernel.Add(sum, g.row(int(target)), sum)
		}
	}
}

// sumParts is how many elements are added up over all ranks before the next ones: the
// parts of a few ranks stay in a core's cache.
const sumParts = reduction.BlockFloats

// addUp makes the first of several tables the tree's sum of them all.
func addUp(tables [][]float32) {
	parts := make([][]float32, len(tables))
	for from := 0; from < len(tables[0]); from += sumParts {
		to := min(from+sumParts, len(tables[0]))
		for i, t := range tables {
			parts[i] = t[from:to]
		}
		addTree(parts)
	}
}

func addTree(parts [][]float32) {
	if len(parts) == 1 {
		return
	}
	p := reduction.Split(len(parts))
	addTree(parts[:p])
	addTree(parts[p:])
	kernel.Add(parts[0], parts[0], parts[p])
}
