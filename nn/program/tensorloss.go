package program

import (
	"math"
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The cross-entropy of logits that parts divide by the vocabulary: three numbers of each row (the
// largest logit, the target's, the largest before it) go to all parts, and then sums: with one block
// the lanes of the trees in turns, else a sum of each block. No part has all logits of a row.

// partLoss is what the steps of such a loss know.
type partLoss struct {
	op.CrossEntropy
	at             slicing
	part, parts    int
	blocks         int
	rows, numbers  int // rows of logits; numbers of a row that a part has, for one block or for all of its own
	lanes, uniform int // of these: for exponentials, and for the logits themselves, if there is smoothing
}

const lossStats = 3

func (d *splitter) crossEntropy(s *step, o op.CrossEntropy, at slicing) bool {
	rows := s.in[0].Shape.Rows()
	l := partLoss{CrossEntropy: o, at: at, parts: d.count, blocks: d.blocks, rows: rows, lanes: 1, uniform: 1}
	if d.blocks == 1 {
		l.lanes, l.uniform = kernel.ExpLanes, kernel.SumLanes
	}
	if o.Smoothing == 0 {
		l.uniform = 0
	}
	if l.numbers = l.lanes + l.uniform; o.Ranks {
		l.numbers++
	}
	value := func(shape ...int) *graph.Node {
		n := *s.call.Out[2]
		n.Shape = shape
		return &n
	}
	layer := s.call.Layer
	add := func(division tick, name string, of func(partLoss) local, out *graph.Node, in ...*graph.Node) {
		steps := make([]*step, d.count)
		for part := range steps {
			own := l
			own.part = part
			steps[part] = stepOf(d.call(layer, op.Local{Name: name, Of: of(own)}, d.slices(in, part), []*graph.Node{out}))
			if division.Division == InTurns {
				steps[part].adds, steps[part].blocks = true, d.count
			}
		}
		d.tick(steps, division)
	}
	// spread gives all parts the values of all, one part's after another's.
	spread := func(own *graph.Node) *graph.Node {
		if d.count == 1 {
			return own
		}
		all := value(d.count * own.Elems())
		x := d.exchange(AllGathered, layer)
		for to := range d.count {
			x.makes(all, to)
			for from := range d.count {
				x.move(transfer{to: to, from: from, dst: all, src: own, floats: own.Elems(), times: 1, first: from * own.Elems()})
			}
		}
		x.end()
		return all
	}
	logits, targets := s.in[0], s.in[1]
	own := value(rows, lossStats)
	add(tick{Division: Divided}, "loss-numbers", func(l partLoss) local { return lossNumbers{l} }, own, logits, targets)
	numbers := spread(own)
	sums := value(rows, l.numbers)
	if d.blocks == 1 {
		add(tick{Division: InTurns, kind: TakenInTurns, examples: 1, from: true}, "loss-sums", func(l partLoss) local { return lossSums{l} }, sums, logits, targets, numbers)
		d.handBack(layer, sums)
	} else {
		sums = value(rows, d.blocks/d.count*l.numbers)
		add(tick{Division: Divided}, "loss-sums", func(l partLoss) local { return lossSums{l} }, sums, logits, targets, numbers)
		sums = spread(sums)
	}
	d.tickAll(d.call(layer, op.Local{Name: s.call.Name(), Of: lossOf{l}}, []*graph.Node{targets, numbers, sums}, s.out))
	return true
}

// largest is the row's largest logit.
func (l *partLoss) largest(numbers []float32, row int) (largest float32) {
	largest = float32(math.Inf(-1))
	for part := range l.parts {
		largest = max(largest, numbers[(part*l.rows+row)*lossStats])
	}
	return largest
}

// mine are the part's columns.
func (l *partLoss) mine() (from, to int) {
	return l.at.edge(l.part, l.parts), l.at.edge(l.part+1, l.parts)
}

// each is computed row by row, given the elements of a row of each operand; 0: it is whole for every row.
func (l *partLoss) each(in, out []int, f func(row int, in, out [][]float32)) traits {
	r := &byRow{rows: l.rows, in: in, out: out, run: func(b stretch) {
		var x, y [maxOperands][]float32
		cut := func(to, of [][]float32, sizes []int, i int) {
			for j, size := range sizes {
				to[j] = of[j]
				if size > 0 {
					to[j] = of[j][i*size : (i+1)*size]
				}
			}
		}
		for i := range b.n {
			cut(x[:], b.in, in, i)
			cut(y[:], b.out, out, i)
			f(b.first+i, x[:len(in)], y[:len(out)])
		}
	}}
	return traits{rows: r, area: func(n, of int) area {
		from, to := share(l.rows, n, of, 1)
		return areaOf(from, to, 0, out[0], out[0])
	}}
}

// lossNumbers are of the part's logits of each row the largest, the target's, and the largest before it.
type lossNumbers struct{ partLoss }

func (l lossNumbers) traits(*graph.Call) traits {
	first, end := l.mine()
	return l.each([]int{end - first, 1}, []int{lossStats}, func(_ int, in, out [][]float32) {
		z, n := in[0], out[0]
		n[0], n[1], n[2] = kernel.RowMax(z), 0, 0
		if t := int(ints(in[1])[0]); t >= first && t < end {
			n[1], n[2] = z[t-first], kernel.RowMax(z[:t-first])
		}
	})
}

// lossSums are sums over the part's logits of each row: of exponentials, with smoothing of the logits,
// and with ranks how many come before the target.
type lossSums struct{ partLoss }

func (l lossSums) traits(*graph.Call) traits {
	first, end := l.mine()
	each := l.blocks / l.parts
	width := l.numbers * max(each, 1)
	return l.each([]int{end - first, 1, 0}, []int{width}, func(row int, in, out [][]float32) {
		z, sums, largest := in[0], out[0], l.largest(in[2], row)
		if l.blocks == 1 {
			kernel.AddExps(sums[:l.lanes], z, largest)
			if l.uniform > 0 {
				kernel.AddRow(sums[l.lanes:l.lanes+l.uniform], z)
			}
			if l.Ranks {
				sums[l.numbers-1] += l.before(z, first, row, in)
			}
			return
		}
		for b := range each {
			from, to := l.at.edge(l.part*each+b, l.blocks), l.at.edge(l.part*each+b+1, l.blocks)
			block, sums := z[from-first:to-first], sums[b*l.numbers:(b+1)*l.numbers]
			sums[0] = kernel.ExpSum(block, largest)
			if l.uniform > 0 {
				sums[1] = kernel.RowSum(block)
			}
			if l.Ranks {
				sums[l.numbers-1] = l.before(block, from, row, in)
			}
		}
	})
}

// before counts, of a row's logits z from class first on, those that come before the target's: as
// kernel.TargetRanks does.
func (l *partLoss) before(z []float32, first, row int, in [][]float32) (count float32) {
	t := int(ints(in[1])[0])
	if t < 0 {
		return 0
	}
	target := in[2][(l.at.owner(t, l.parts)*l.rows+row)*lossStats+1]
	for i, v := range z {
		if class := first + i; class < t && !(v < target) || class > t && !(v <= target) {
			count++
		}
	}
	return count
}

// lossOf is the cross-entropy from the numbers and sums of all parts.
type lossOf struct{ partLoss }

func (l lossOf) traits(*graph.Call) traits {
	results := []int{1, 1, 1}
	if l.Ranks {
		results = append(results, 1)
	}
	return l.each([]int{1, 0, 0}, results, func(row int, in, out [][]float32) {
		exps, sum, before := l.sums(in[2], row)
		largest := l.largest(in[1], row)
		logSum := kernel.LogSum(largest, exps)
		out[2][0], out[0][0], out[1][0] = float32(logSum), 0, 0
		t := int(ints(in[0])[0])
		if l.Ranks {
			out[3][0] = -1
		}
		if t < 0 {
			return
		}
		owner := l.at.owner(t, l.parts)
		numbers := in[1][(owner*l.rows+row)*lossStats:][:lossStats]
		out[0][0] = kernel.Entropy(logSum, numbers[1], sum, l.at.length, l.Smoothing)
		first := numbers[1] == largest && numbers[2] < largest
		for part := range owner {
			first = first && in[1][(part*l.rows+row)*lossStats] < largest
		}
		if first {
			out[1][0] = 1
		}
		if l.Ranks {
			out[3][0] = before
		}
	})
}

// sums are a row's sums over all classes.
func (l *partLoss) sums(all []float32, row int) (exps, sum, before float32) {
	if l.blocks == 1 {
		lanes := slices.Clone(all[row*l.numbers : (row+1)*l.numbers])
		exps = kernel.Fold(lanes[:l.lanes])
		if l.uniform > 0 {
			sum = kernel.Fold(lanes[l.lanes : l.lanes+l.uniform])
		}
		return exps, sum, lanes[l.numbers-1]
	}
	each := l.blocks / l.parts
	of := func(block, number int) float32 {
		return all[((block/each*l.rows+row)*each+block%each)*l.numbers+number]
	}
	var tree func(lo, hi, number int) float32
	tree = func(lo, hi, number int) float32 {
		if hi-lo == 1 {
			return of(lo, number)
		}
		middle := lo + split(hi-lo)
		return tree(lo, middle, number) + tree(middle, hi, number)
	}
	exps = tree(0, l.blocks, 0)
	if l.uniform > 0 {
		sum = tree(0, l.blocks, 1)
	}
	return exps, sum, tree(0, l.blocks, l.numbers-1)
}

// lossGrad is the gradient of the cross-entropy for the part's logits, which begin with class first.
type lossGrad struct {
	smoothing    float32
	first, vocab int
}

func (o lossGrad) traits(c *graph.Call) traits {
	rows, cols := matrix(c.In[0])
	return traits{rows: &byRow{rows: rows, in: []int{cols, 1, 1}, out: []int{cols}, run: func(b stretch) {
		kernel.CrossEntropyGrad(b.out[0], b.in[0], b.in[1], ints(b.in[2]), b.w.env.LossScale, b.n, cols, o.first, o.vocab, o.smoothing)
	}}}
}
