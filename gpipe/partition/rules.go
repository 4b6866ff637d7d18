package partition

import (
	"fmt"
	"slices"
	"strings"
)

// lingvo is the rule of PartitionSequentialLayers in lingvo/core/gpipe.py
// (tensorflow/lingvo): layer i goes to stage floor(h(i) * K), but no further
// than the last, where h(i) is the cost up to and including it, as a share of
// the total. Arithmetic is in float64, as there. Stages may be left empty.
func lingvo(cost []float64, stages int) ([]int, error) {
	histogram := make([]float64, len(cost))
	var total float64
	for i, c := range cost {
		total += c
		histogram[i] = total
	}
	if total == 0 {
		return nil, fmt.Errorf("partition: lingvo's rule divides by the layers' total cost, which is 0: want a layer that costs something, or another partitioner")
	}
	sizes := make([]int, stages)
	for _, h := range histogram {
		sizes[min(int(h/total*float64(stages)), stages-1)]++
	}
	return sizes, nil
}

// block is torchgpipe's rule (torchgpipe/balance/blockpartition.py), the
// algorithm of Barany and Grinberg, Block partitions of sequences (arXiv
// 1308.2452): starting from equal numbers of layers, as long as the costliest
// stage exceeds the cheapest by more than a layer can, a layer moves to the
// cheapest from its neighbour towards the costliest.
//
// As in torchgpipe, costs are first mapped to [0, 1], so that a layer can be no
// more than 1 and the cheapest counts as nothing; the layers that do not divide
// go to the last stage; among equals the last is the costliest stage and the first
// the cheapest; sums are float64, from the left. It differs in one thing: where
// the neighbour is empty, torchgpipe moves a boundary past the next one and loses
// the order of its layers; here that neighbour, which is as cheap and nearer to
// the costliest stage (as the paper requires of a tie), takes the layer instead.
// Both may end with an empty stage if several layers cost the least.
func block(cost []float64, stages int) []int {
	n := len(cost)
	least, most := slices.Min(cost), slices.Max(cost)
	normal := make([]float64, n)
	if most > least {
		for i, c := range cost {
			normal[i] = (c - least) / (most - least)
		}
	}
	// Stage k is layers start[k] to start[k+1]-1.
	start := make([]int, stages+1)
	for k := range stages {
		start[k] = n / stages * k
	}
	start[stages] = n
	sums := make([]float64, stages)
	sum := func(k int) {
		sums[k] = 0
		for _, c := range normal[start[k]:start[k+1]] {
			sums[k] += c
		}
	}
	for k := range stages {
		sum(k)
	}

	// While p stays, layers move only away from it, and no stage that gains one becomes
	// as costly as p, so the rule ends. The bound is for rounding, which could break
	// this in the last bit.
	p := last(sums)
	for range n * n * stages {
		q := slices.Index(sums, slices.Min(sums))
		if sums[p] <= sums[q]+1 {
			break
		}
		var from int
		if p < q {
			from = q - 1 // not empty: it would be a cheapest, and before q
			start[q]--
		} else {
			for start[q+1] == start[q+2] {
				q++
			}
			from = q + 1
			start[q+1]++
		}
		sum(q)
		sum(from)
		if from == p {
			p = last(sums)
		}
	}
	sizes := make([]int, stages)
	for k := range sizes {
		sizes[k] = start[k+1] - start[k]
	}
	return sizes
}

// last is the index of the last maximum.
func last(sums []float64) int {
	p := 0
	for k, s := range sums {
		if s >= sums[p] {
			p = k
		}
	}
	return p
}

// fillEmpty gives each empty stage a layer and returns a description of the moves.
// The layer comes from the nearest stage that has two or more; of two equally near
// ones from the costlier, then from the left one. The stages between pass a layer on.
func fillEmpty(p Partitioner, sizes []int, cost []float64) string {
	var moves []string
	for {
		empty := slices.Index(sizes, 0)
		if empty < 0 {
			return strings.Join(moves, "; ")
		}
		giver := -1
		sums := StageCosts(cost, sizes)
		for k, n := range sizes {
			if n < 2 {
				continue
			}
			if giver < 0 {
				giver = k
				continue
			}
			near, far := abs(k-empty), abs(giver-empty)
			if near < far || near == far && sums[k] > sums[giver] {
				giver = k
			}
		}
		// The layer that the giver loses: its last if it gives to the right, its
		// first if it gives to the left.
		layer := 0
		for _, n := range sizes[:giver] {
			layer += n
		}
		if giver < empty {
			layer += sizes[giver] - 1
		}
		sizes[giver]--
		sizes[empty]++
		move := fmt.Sprintf("%v left stage %d empty: it takes layer %d from stage %d", p, empty, layer, giver)
		if abs(giver-empty) > 1 {
			move = fmt.Sprintf("%v left stage %d empty: each stage from %d to it passes a layer on, the first is layer %d", p, empty, giver, layer)
		}
		moves = append(moves, move)
	}
}

func abs(x int) int { return max(x, -x) }
