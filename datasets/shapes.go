package datasets

import (
	"slices"

	"gpipebench/nn"
)

// Shape is the size of a mini-batch of pairs but for the number of examples:
// what sentences are padded to, in tokens.
type Shape struct {
	Source, Target int
}

// fits reports whether a pair of these lengths can be padded to the shape.
func (s Shape) fits(source, target int) bool { return source <= s.Source && target <= s.Target }

// Shaped is a Source whose batches come in a few shapes, so that little is
// padded: a program has to be compiled for each, and planned for the largest.
//
// To keep the sentences of a batch alike, which of them share one depends on the
// batch size and not on their order alone.
type Shaped interface {
	Source

	// Shapes are all that occur, each at least as large as the one before in
	// both dimensions: the last is the largest.
	Shapes() []Shape

	// Largest is a batch of the largest shape with the given number of
	// examples, to plan with; its examples mean nothing.
	Largest(examples int) nn.Batch
}

// bounds cuts the lengths 1..len(counts)-1, of which each occurs as often as
// counts says, into at most n groups, each padded to its longest, so that the sum
// of padded lengths is the least: exact, by dynamic programming over the longest
// of the last group. Of equally good cuts it takes the one whose last group
// begins first, and as many groups as help.
func bounds(counts []int, n int) []int {
	var lengths []int // that occur
	for l, c := range counts {
		if c > 0 {
			lengths = append(lengths, l)
		}
	}
	if len(lengths) == 0 {
		return nil
	}
	n = min(n, len(lengths))
	upTo := make([]int, len(lengths)+1) // upTo[i] is how often the first i lengths occur
	for i, l := range lengths {
		upTo[i+1] = upTo[i] + counts[l]
	}
	const none = int(^uint(0) >> 1)
	cost := make([]int, len(lengths)+1) // of the first j lengths in g groups
	for j := 1; j < len(cost); j++ {
		cost[j] = none
	}
	from := make([][]int, n) // from[g][j]: where group g begins if it ends before j
	for g := range n {
		from[g] = make([]int, len(cost))
		better := make([]int, len(cost))
		better[0] = none
		for j := 1; j < len(cost); j++ {
			better[j] = none
			for i := range j {
				if cost[i] == none {
					continue
				}
				if c := cost[i] + (upTo[j]-upTo[i])*lengths[j-1]; c < better[j] {
					better[j], from[g][j] = c, i
				}
			}
		}
		cost = better
	}
	out := make([]int, n)
	for g, j := n-1, len(lengths); g >= 0; g-- {
		out[g] = lengths[j-1]
		j = from[g][j]
	}
	return out
}

// shapesOf are at most n shapes for pairs: the longer of a pair's two lengths is
// cut by bounds, and a shape is as large as the pairs up to its bound need.
func shapesOf(sizes []Shape, n int) []Shape {
	var counts []int
	longer := func(s Shape) int { return max(s.Source, s.Target) }
	for _, s := range sizes {
		if l := longer(s); l >= len(counts) {
			counts = append(counts, make([]int, l+1-len(counts))...)
		}
		counts[longer(s)]++
	}
	cut := bounds(counts, n)
	shapes := make([]Shape, len(cut))
	for _, s := range sizes {
		k, _ := slices.BinarySearch(cut, longer(s))
		shapes[k] = shapes[k].union(s)
	}
	for k := 1; k < len(shapes); k++ {
		shapes[k] = shapes[k].union(shapes[k-1])
	}
	return shapes
}

// union is the least shape that both fit.
func (s Shape) union(o Shape) Shape {
	return Shape{max(s.Source, o.Source), max(s.Target, o.Target)}
}

// shapeFor is the index of the first shape that fits, len(shapes) if none does.
func shapeFor(shapes []Shape, source, target int) int {
	k := 0
	for k < len(shapes) && !shapes[k].fits(source, target) {
		k++
	}
	return k
}

// group puts items of alike shape together, in groups of the given size, of
// which only the last may be smaller. What does not fill up a group goes to the
// next larger shape. The order within a shape is the one that arrange leaves.
func group[T any](items []T, shapes int, shapeOf func(T) int, size int, arrange func(shape int, items []T)) [][]T {
	byShape := make([][]T, shapes)
	for _, item := range items {
		k := shapeOf(item)
		byShape[k] = append(byShape[k], item)
	}
	groups := make([][]T, 0, ceilDiv(len(items), size))
	var rest []T
	for k, members := range byShape {
		members = append(rest, members...)
		arrange(k, members)
		for len(members) >= size {
			groups = append(groups, members[:size:size])
			members = members[size:]
		}
		rest = members[:len(members):len(members)]
	}
	if len(rest) > 0 {
		groups = append(groups, rest)
	}
	return groups
}
