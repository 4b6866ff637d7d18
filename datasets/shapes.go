package datasets

import (
	"math"
	"slices"
)

// Shape is the size of a mini-batch of pairs without the number of examples:
// the lengths to which sentences are padded, in tokens.
type Shape struct {
	Source, Target int
}

// fits reports whether a pair of these lengths can be padded to the shape.
func (s Shape) fits(source, target int) bool { return source <= s.Source && target <= s.Target }

// bounds divides the lengths 1..len(counts)-1, with the frequencies counts,
// into at most n groups, each padded to its longest, with the minimum sum of
// padded lengths. It is exact, by dynamic programming over the longest length
// of the last group. Of equally good divisions it takes the one whose last
// group begins first; it uses only as many groups as reduce the sum.
func bounds(counts []int, n int) []int {
	var lengths []int // those that occur
	for l, c := range counts {
		if c > 0 {
			lengths = append(lengths, l)
		}
	}
	if len(lengths) == 0 {
		return nil
	}
	n = min(n, len(lengths))
	upTo := make([]int, len(lengths)+1) // upTo[i] is the total count of the first i lengths
	for i, l := range lengths {
		upTo[i+1] = upTo[i] + counts[l]
	}
	const none = math.MaxInt
	cost := make([]int, len(lengths)+1) // of the first j lengths in g groups
	for j := 1; j < len(cost); j++ {
		cost[j] = none
	}
	from := make([][]int, n) // from[g][j] is the start of group g if it ends before j
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

// shapesOf returns at most n shapes for pairs: bounds divides the longer of a
// pair's two lengths, and a shape is as large as the pairs up to its bound
// need.
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

// union returns the smallest shape that both fit.
func (s Shape) union(o Shape) Shape {
	return Shape{max(s.Source, o.Source), max(s.Target, o.Target)}
}

// shapeFor returns the index of the first shape that fits, or len(shapes).
func shapeFor(shapes []Shape, source, target int) int {
	k := 0
	for k < len(shapes) && !shapes[k].fits(source, target) {
		k++
	}
	return k
}

// group divides items into groups of similar shape and of the given size; only
// the last may be smaller. Items that do not fill a group are passed to the
// next larger shape. arrange determines the order within a shape.
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
