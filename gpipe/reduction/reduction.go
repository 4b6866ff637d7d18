// Package reduction adds up the gradients of groups of examples, within a replica
// and over replicas, so that the bits of the sum depend on the number of groups and
// on nothing else.
//
// The order of additions is a balanced binary tree over the groups' indices: the sum
// of groups lo to hi-1 is the group itself if there is one, and otherwise the sum of
// the first p plus that of the others, with p the largest power of two below hi-lo
// ([Split]). [Sum] is that definition. A [Stack] computes it for groups that come one
// after another in one place, and [AllReduce] for those of several replicas. If each
// of R replicas has a power of two consecutive groups, its groups are a whole subtree,
// and the tree over all groups is the tree over the replicas' sums.
//
// Addition commutes, so which of two partners adds does not matter; it is not
// associative, so everything else does.
package reduction

import (
	"math/bits"
	"slices"

	"gpipebench/internal/kernel"
)

// Split is the number of groups on the left of the tree's root: the largest power of
// two below n. n is at least 2.
func Split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// Sum is the tree's sum of groups, at least one, all of one length. It is the
// definition that everything else in this package agrees with to the bit.
func Sum(groups [][]float32) []float32 {
	if len(groups) == 1 {
		return slices.Clone(groups[0])
	}
	p := Split(len(groups))
	sum := Sum(groups[:p])
	kernel.Add(sum, sum, Sum(groups[p:]))
	return sum
}

// SumOf is the tree's sum of numbers, at least one.
func SumOf(numbers []float64) float64 {
	if len(numbers) == 1 {
		return numbers[0]
	}
	p := Split(len(numbers))
	return SumOf(numbers[:p]) + SumOf(numbers[p:])
}

// Stack adds up groups that come in ascending order in one place. It holds the sums of
// whole subtrees, the largest at the bottom, as a binary counter holds its digits: the
// bits of the number of groups taken are the subtrees' sizes. It does no arithmetic
// itself: the functions given to its methods do, for any number of tensors.
//
// The zero value is an empty stack.
type Stack struct{ groups int }

// Depth is the most subtrees that a stack holds while it adds up n groups: the
// accumulators needed besides that of the running group.
func Depth(n int) int { return bits.Len(uint(n)) - 1 }

// Push takes a group that is complete and not the last. It calls store(i) to copy the
// group's accumulator to the empty place i, or add(i) to add it to place i; then
// merge(i) to add place i+1 to place i for each two subtrees that have the same size.
// Afterwards the accumulator is free for the next group.
func (s *Stack) Push(store, add, merge func(place int)) {
	height := bits.OnesCount(uint(s.groups))
	completed := bits.TrailingZeros(^uint(s.groups)) // subtrees that end with this group, but for itself
	s.groups++
	if completed == 0 {
		store(height)
		return
	}
	add(height - 1)
	for i := height - 2; i >= height-completed; i-- {
		merge(i)
	}
}

// Finish takes the last group: add(i) adds place i to the group's accumulator, which
// then has the sum. The stack is empty again.
func (s *Stack) Finish(add func(place int)) {
	for i := bits.OnesCount(uint(s.groups)) - 1; i >= 0; i-- {
		add(i)
	}
	s.groups = 0
}
