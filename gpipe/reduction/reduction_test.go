package reduction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"gpipebench/internal/kernel"
	"gpipebench/internal/testkit"
)

// random are tensors whose sums depend on the order of additions.
func random(seed uint64, sizes []int) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([][]float32, len(sizes))
	for t, n := range sizes {
		all[t] = make([]float32, n)
		for i := range all[t] {
			all[t][i] = float32(r.NormFloat64() * math.Pow(10, 4*r.Float64()))
		}
	}
	return all
}

// tree is the definition for every tensor.
func tree(groups [][][]float32) [][]float32 {
	sums := make([][]float32, len(groups[0]))
	for t := range sums {
		var one [][]float32
		for _, g := range groups {
			one = append(one, g[t])
		}
		sums[t] = Sum(one)
	}
	return sums
}

func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// The tree of five groups, by hand.
func TestSum(t *testing.T) {
	g := random(1, []int{7, 7, 7, 7, 7})
	for i, got := range Sum(g) {
		testkit.Equal(t, got, ((g[0][i]+g[1][i])+(g[2][i]+g[3][i]))+g[4][i], "element %d", i)
	}
	for n, want := range map[int]int{2: 1, 3: 2, 4: 2, 5: 4, 8: 4, 9: 8} {
		testkit.Equal(t, Split(n), want, "Split(%d)", n)
	}
}

// A stack of Depth(n) accumulators adds up n groups as the tree does.
func TestStack(t *testing.T) {
	for n := 1; n <= 70; n++ {
		groups := random(uint64(n), slices.Repeat([]int{5}, n))
		var s Stack
		places := make([][]float32, Depth(n))
		for i := range places {
			places[i] = make([]float32, 5)
		}
		running := make([]float32, 5)
		for g, group := range groups {
			copy(running, group)
			if g < n-1 {
				s.Push(
					func(i int) { copy(places[i], running) },
					func(i int) { kernel.Add(places[i], places[i], running) },
					func(i int) { kernel.Add(places[i], places[i], places[i+1]) })
			}
		}
		s.Finish(func(i int) { kernel.Add(running, running, places[i]) })
		if !same(running, Sum(groups)) {
			t.Errorf("%d groups: the stack's sum is not the tree's", n)
		}
	}
}

// If every replica has a power of two groups, the tree over the replicas' sums is the
// tree over all groups.
func TestSubtrees(t *testing.T) {
	for ranks := 1; ranks <= 9; ranks++ {
		for each := 1; each <= 8; each *= 2 {
			groups := random(uint64(ranks), slices.Repeat([]int{11}, ranks*each))
			var sums [][]float32
			for r := range ranks {
				sums = append(sums, Sum(groups[r*each:(r+1)*each]))
			}
			if !same(Sum(sums), Sum(groups)) {
				t.Errorf("%d replicas of %d groups: not the tree over %d groups", ranks, each, ranks*each)
			}
		}
	}
}

// Blocks cover every element once and in order, chunks are at most a block large, and
// every chunk has one owner, whose share is even to within a chunk.
func TestLayout(t *testing.T) {
	for _, sizes := range [][]int{{}, {1}, {BlockFloats}, {BlockFloats + 1}, {3, 0, 5}, {3, 3*BlockFloats + 7, 9, 9, BlockFloats - 1, 2, BlockFloats}} {
		l := NewLayout(sizes)
		at, all := make([]int, len(sizes)), 0
		tensor := 0
		for c := range l.Chunks() {
			n := 0
			for _, b := range l.Blocks(c) {
				if b.Tensor < tensor || b.From != at[b.Tensor] || b.From%BlockFloats != 0 || b.To-b.From > BlockFloats {
					t.Fatalf("%v: chunk %d has block %v", sizes, c, b)
				}
				tensor, at[b.Tensor] = b.Tensor, b.To
				n += b.To - b.From
			}
			if n != l.Floats(c) || n > BlockFloats {
				t.Errorf("%v: chunk %d has %d elements and says %d", sizes, c, n, l.Floats(c))
			}
			all += n
		}
		testkit.EqualAll(t, at, sizes, "%v: blocks cover", sizes)
		for ranks := 1; ranks <= 9; ranks++ {
			next := 0
			for r := range ranks {
				from, to := l.Owned(ranks, r)
				if from != next || to < from {
					t.Errorf("%v: rank %d of %d owns %d to %d, want from %d", sizes, r, ranks, from, to, next)
				}
				own := 0
				for c := from; c < to; c++ {
					own += l.Floats(c)
				}
				if math.Abs(float64(own)-float64(all)/float64(ranks)) > BlockFloats {
					t.Errorf("%v: rank %d of %d owns %d of %d elements", sizes, r, ranks, own, all)
				}
				next = to
			}
			testkit.Equal(t, next, l.Chunks(), "%v: %d ranks own", sizes, ranks)
		}
	}
}

// channels connects the ranks of a test.
type channels struct {
	ranks int
	lines [][]chan message // by sender and receiver
	lost  func(from, to, chunk int) error
}

type message struct {
	chunk int
	parts [][]float32
	taken chan struct{}
}

type end struct {
	*channels
	rank int
}

func connect(ranks int) *channels {
	c := &channels{ranks: ranks, lines: make([][]chan message, ranks)}
	for i := range c.lines {
		for range ranks {
			c.lines[i] = append(c.lines[i], make(chan message))
		}
	}
	return c
}

func (e end) Ranks() int { return e.ranks }
func (e end) Rank() int  { return e.rank }

func (e end) Send(ctx context.Context, to, chunk int, parts [][]float32) error {
	if e.lost != nil {
		if err := e.lost(e.rank, to, chunk); err != nil {
			return err
		}
	}
	m := message{chunk, parts, make(chan struct{})}
	select {
	case e.lines[e.rank][to] <- m:
		<-m.taken
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e end) Receive(ctx context.Context, from, chunk int, parts [][]float32) error {
	return e.take(ctx, from, e.rank, chunk, func(sent [][]float32) {
		for i := range parts {
			copy(parts[i], sent[i])
		}
	})
}

func (c *channels) take(ctx context.Context, from, to, chunk int, use func([][]float32)) error {
	select {
	case m := <-c.lines[from][to]:
		defer close(m.taken)
		if m.chunk != chunk {
			return fmt.Errorf("chunk %d arrived where %d was due", m.chunk, chunk)
		}
		use(m.parts)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// together runs f for every rank of a connection.
func together(c *channels, sizes []int, lent bool, f func(a *AllReduce, rank int) error) []error {
	errs := make([]error, c.ranks)
	var all sync.WaitGroup
	for rank := range c.ranks {
		all.Go(func() {
			a := &AllReduce{Layout: NewLayout(sizes), Peers: end{c, rank}}
			largest := a.Layout.LargestMessage(c.ranks, rank)
			if lent {
				a.AddLent = func(ctx context.Context, from, chunk int, sums [][]float32) error {
					return c.take(ctx, from, rank, chunk, func(summands [][]float32) {
						for i := range sums {
							kernel.Add(sums[i], sums[i], summands[i])
						}
					})
				}
			}
			for range Buffers(c.ranks, rank, lent) { // no more, and no larger
				a.Buffers = append(a.Buffers, make([]float32, largest))
			}
			errs[rank] = f(a, rank)
		})
	}
	all.Wait()
	return errs
}

// After Reduce, owners have the tree's sums and no rank's other chunks have changed;
// after Gather every rank has all sums.
func TestAllReduce(t *testing.T) {
	sizes := []int{5, 6*BlockFloats + 3, 17, 64, BlockFloats, 3 * BlockFloats}
	const most = 9
	summands := make([][][]float32, most) // of each rank
	for rank := range summands {
		summands[rank] = random(uint64(rank), sizes)
	}
	for ranks := 1; ranks <= most; ranks++ {
		want := tree(summands[:ranks])
		for _, lent := range []bool{false, true} {
			testAllReduce(t, sizes, summands[:ranks], want, lent)
		}
	}
}

func testAllReduce(t *testing.T, sizes []int, summands [][][]float32, want [][]float32, lent bool) {
	ranks := len(summands)
	synctest.Test(t, func(t *testing.T) {
		all := make([][][]float32, ranks)
		for rank, before := range summands {
			for _, tensor := range before {
				all[rank] = append(all[rank], slices.Clone(tensor))
			}
		}
		errs := together(connect(ranks), sizes, lent, func(a *AllReduce, rank int) error {
			if err := a.Reduce(t.Context(), all[rank]); err != nil {
				return err
			}
			from, to := a.Layout.Owned(ranks, rank)
			for c := range a.Layout.Chunks() {
				expect := summands[rank]
				if c >= from && c < to {
					expect = want
				}
				for i, part := range a.Layout.of(span{c, c + 1}, all[rank]) {
					if !same(part, a.Layout.of(span{c, c + 1}, expect)[i]) {
						return fmt.Errorf("chunk %d, part %d is wrong after Reduce (owned: %d to %d)", c, i, from, to)
					}
				}
			}
			if err := a.Gather(t.Context(), all[rank]); err != nil {
				return err
			}
			for i := range want {
				if !same(all[rank][i], want[i]) {
					return fmt.Errorf("tensor %d is wrong after Gather", i)
				}
			}
			return nil
		})
		for rank, err := range errs {
			testkit.Equal(t, err, nil, "%d ranks, lent: %v, rank %d", ranks, lent, rank)
		}
	})
}

// A rank that fails ends its own call with its error; the others end with the context.
func TestAllReduceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		c := connect(4)
		c.lost = func(from, to, chunk int) error {
			if from == 2 && to == 0 {
				return broken
			}
			return nil
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		sizes := []int{6 * BlockFloats}
		errs := together(c, sizes, false, func(a *AllReduce, rank int) error {
			err := a.Reduce(ctx, random(uint64(rank), sizes))
			if err != nil {
				cancel(err)
			}
			return err
		})
		for rank, err := range errs {
			if err != nil && !errors.Is(err, broken) {
				t.Errorf("rank %d: %v, want %v", rank, err, broken)
			}
		}
		if errs[2] == nil {
			t.Error("rank 2 does not report its failure")
		}
	})
}
