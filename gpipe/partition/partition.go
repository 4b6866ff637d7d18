// Package partition cuts a sequence of layers into pipeline stages.
//
// A stage is one or more consecutive layers, and every layer is in exactly one
// stage; a partition is the list of the stages' sizes. What a layer costs
// (FLOPs, time, bytes) is the caller's choice: costs are plain numbers, finite
// and not negative. The package is pure: no goroutine, clock or file.
//
// Source: Huang et al., GPipe (arXiv 1811.06965), sections 2.1 and 2.2; each
// partitioner names its own.
package partition

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/internal/named"
)

// Partitioner is a rule that chooses among the ways to cut.
type Partitioner uint8

const (
	// MinMax makes the costliest stage, the pipeline's bottleneck, as cheap as
	// possible, which is what training throughput requires. Exact. The default.
	MinMax Partitioner = iota
	// MinVariance minimises the variance of the stages' costs, the paper's words
	// (section 2.2). Exact.
	MinVariance
	// Lingvo is the rule of the code that the paper's authors released: the
	// cumulative histogram of the layers' costs, cut at equal heights.
	Lingvo
	// Block is torchgpipe's: the block partition of Barany and Grinberg, whose
	// stages differ by no more than the costs of two layers do.
	Block
)

var partitioners = [...]string{MinMax: "min-max", MinVariance: "min-variance", Lingvo: "lingvo", Block: "block"}

func (p Partitioner) String() string { return named.String(p, partitioners[:], "Partitioner") }

// Parse reads what String writes: min-max, min-variance, lingvo or block.
func Parse(name string) (Partitioner, error) {
	return named.Parse[Partitioner](name, partitioners[:], "partitioner")
}

// Result is a partition.
type Result struct {
	Sizes []int  // layers of each stage, 1 or more; they add up to all layers
	Moved string // which layers were moved because a rule (lingvo, block) left a stage empty; "" if none
}

// Split cuts the layers, given by their costs in order, into stages. Among
// several best partitions min-max and min-variance take the one whose sizes are
// lexicographically smallest.
func Split(p Partitioner, cost []float64, stages int) (Result, error) {
	if err := check(cost, stages); err != nil {
		return Result{}, err
	}
	var sizes []int
	switch p {
	case MinMax:
		sizes, _ = minMax(prefix(cost), stages, anything)
	case MinVariance:
		sizes = minVariance(prefix(cost), stages)
	case Lingvo:
		var err error
		if sizes, err = lingvo(cost, stages); err != nil {
			return Result{}, err
		}
	case Block:
		sizes = block(cost, stages)
	default:
		return Result{}, fmt.Errorf("partition: unknown partitioner %d: want min-max, min-variance, lingvo or block", p)
	}
	moved := fillEmpty(p, sizes, cost)
	return Result{Sizes: sizes, Moved: moved}, nil
}

// MinMaxUnderCapacity is min-max among the partitions whose stages all fit their
// devices: fits(from, to) says whether one device can hold layers from..to-1. It
// need not be monotone (a shorter stage may need more memory, if the boundary that
// it stashes is larger), and is called at most once for each pair. Exact.
func MinMaxUnderCapacity(cost []float64, stages int, fits func(from, to int) bool) (Result, error) {
	if err := check(cost, stages); err != nil {
		return Result{}, err
	}
	fits = once(fits, len(cost))
	if sizes, ok := minMax(prefix(cost), stages, fits); ok {
		return Result{Sizes: sizes}, nil
	}
	for i := range cost {
		if !fits(i, i+1) {
			return Result{}, fmt.Errorf("partition: no cut of %d layers into %d stages fits the devices: layer %d does not fit one even by itself; want a larger capacity",
				len(cost), stages, i)
		}
	}
	return Result{}, fmt.Errorf("partition: no cut of %d layers into %d stages fits the devices: want more stages or a larger capacity", len(cost), stages)
}

func check(cost []float64, stages int) error {
	if stages < 1 || stages > len(cost) {
		return fmt.Errorf("partition: %d stages for %d layers: want 1 to %d, a layer or more on each", stages, len(cost), len(cost))
	}
	var total float64
	for i, c := range cost {
		if !(c >= 0) || math.IsInf(c, 1) {
			return fmt.Errorf("partition: layer %d costs %v: want a finite number, 0 or more", i, c)
		}
		total += c
	}
	if math.IsInf(total, 1) {
		return fmt.Errorf("partition: the layers' costs add up to more than a float64 holds: want them in a larger unit")
	}
	return nil
}

// CheckBalance refuses sizes that do not cut layers into stages: there must be one size for each
// stage, each at least 1, and they must add up to the layers.
func CheckBalance(sizes []int, layers, stages int) error {
	if len(sizes) != stages {
		return fmt.Errorf("partition: balance %v has %d stages: want %d", sizes, len(sizes), stages)
	}
	sum := 0
	for k, n := range sizes {
		if n < 1 {
			return fmt.Errorf("partition: balance %v: stage %d has %d layers: want 1 or more", sizes, k, n)
		}
		if n > layers {
			return fmt.Errorf("partition: balance %v: stage %d has %d layers: want at most the %d of the network", sizes, k, n, layers)
		}
		sum += n
	}
	if sum != layers {
		return fmt.Errorf("partition: balance %v adds up to %d: want %d, the layers of the network", sizes, sum, layers)
	}
	return nil
}

// StageCosts adds up each stage's costs. The sizes must add up to the layers.
func StageCosts(cost []float64, sizes []int) []float64 {
	sums := make([]float64, len(sizes))
	from := 0
	for k, n := range sizes {
		for _, c := range cost[from : from+n] {
			sums[k] += c
		}
		from += n
	}
	if from != len(cost) {
		panic(fmt.Sprintf("partition: sizes %v for %d layers", sizes, len(cost)))
	}
	return sums
}

// Efficiency is the share of the devices' time that the stages' costs fill if
// each step takes as long as its costliest stage: sum / (K * max) over stages.
// It is 1 if nothing costs anything.
func Efficiency(cost []float64, sizes []int) float64 {
	sums := StageCosts(cost, sizes)
	var sum float64
	for _, s := range sums {
		sum += s
	}
	if sum == 0 {
		return 1
	}
	return sum / (float64(len(sums)) * slices.Max(sums))
}
