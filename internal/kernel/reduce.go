package kernel

import (
	"math"
	"sync"
)

// Reductions of one row, and of a whole tensor for norms and checks. A sum is a
// fixed tree of 64 lanes, of exponentials 32: see Row reductions in the
// package's comment.

// SumSquares returns the sum of x², accumulated in float64.
func SumSquares(x []float32) float64 { return vector.sumSquares(x) }

// FirstNonFinite returns the index of the first NaN or infinity in x, or -1.
func FirstNonFinite(x []float32) int {
	start := vector.nonFinite(x)
	if start < 0 {
		return -1
	}
	return start + nonFiniteGeneric(x[start:])
}

// RowMax returns the largest element of x. It ignores NaNs; the maximum of no
// element is -Inf. Adding 0 makes a zero positive, whichever lane it is from.
func RowMax(x []float32) float32 { return vector.rowMax(x) + 0 }

// RowSum returns the sum of x.
func RowSum(x []float32) float32 { return vector.rowSum(x) }

// ExpSum returns the sum of exp(x - shift).
func ExpSum(x []float32, shift float32) float32 { return vector.expSum(x, 1, shift) }

func rowMaxGeneric(x []float32) float32 {
	largest := float32(math.Inf(-1))
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	return largest
}

const wideTree, narrowTree = 64, 32

// A row may be in several pieces, one after another, of which all but the last have a multiple of 64
// elements: what goes from piece to piece are the lanes of its tree, which fold to the reduction of
// the whole row. Sums of exponentials have ExpLanes lanes, sums of elements and of squares SumLanes.
const ExpLanes, SumLanes = narrowTree, wideTree

// laneGroup returns how many of the left elements of a row go to the first lanes
// of a tree at once.
func laneGroup(left, lanes int) int {
	if left >= lanes {
		return lanes
	}
	return min(left, 16)
}

// Fold returns the sum of a tree's lanes, which it overwrites.
func Fold[T float32 | float64](lanes []T) T {
	for n := len(lanes) / 2; n > 0; n /= 2 {
		for l, v := range lanes[n : 2*n] {
			lanes[l] += v
		}
	}
	return lanes[0]
}

// treeSum returns the sum of x in a tree whose lanes are zero.
func treeSum(lanes, x []float32) float32 {
	AddRow(lanes, x)
	return Fold(lanes)
}

// expBuffers are pieces of exponentials, in the first-level cache.
var expBuffers = sync.Pool{New: func() any { return new([16 * wideTree]float32) }}

// AddExps adds exp(x - shift) to [ExpLanes] lanes.
func AddExps(lanes, x []float32, shift float32) {
	buffer := expBuffers.Get().(*[16 * wideTree]float32)
	defer expBuffers.Put(buffer)
	for len(x) > 0 {
		n := min(len(x), len(buffer))
		vector.expShift(buffer[:n], x[:n], 1, shift)
		AddRow(lanes, buffer[:n])
		x = x[n:]
	}
}

// AddRow adds x to a tree's lanes, such as [SumLanes].
func AddRow(lanes, x []float32) {
	for n := 0; len(x) > 0; x = x[n:] {
		n = laneGroup(len(x), len(lanes))
		for l, v := range x[:n] {
			lanes[l] += v
		}
	}
}

func rowSumGeneric(x []float32) float32 { return treeSum(make([]float32, wideTree), x) }

func dotGeneric(a, b []float32) float32 {
	var lanes [wideTree]float32
	for n := 0; len(a) > 0; a, b = a[n:], b[n:] {
		n = laneGroup(len(a), wideTree)
		fmaEach(lanes[:n], a, b)
		for l := n; l < 16; l++ {
			lanes[l] += 0 // makes -0, to which a product may round, +0
		}
	}
	return Fold(lanes[:])
}

func expShiftGeneric(dst, x []float32, scale, shift float32) float32 {
	for i := range dst {
		dst[i] = exp32(fma32(x[i], scale, -shift))
	}
	return treeSum(make([]float32, narrowTree), dst)
}

func expSumGeneric(x []float32, scale, shift float32) float32 {
	var lanes [narrowTree]float32
	for n := 0; len(x) > 0; x = x[n:] {
		n = laneGroup(len(x), narrowTree)
		for l, v := range x[:n] {
			lanes[l] += exp32(fma32(v, scale, -shift))
		}
	}
	return Fold(lanes[:])
}

func sumSquaresGeneric(x []float32) float64 {
	var lanes [wideTree]float64
	AddSquares(lanes[:], x)
	return Fold(lanes[:])
}

// AddSquares adds the squares of x to [SumLanes] lanes.
func AddSquares(lanes []float64, x []float32) {
	for n := 0; len(x) > 0; x = x[n:] {
		n = laneGroup(len(x), len(lanes))
		for l, v := range x[:n] {
			lanes[l] += float64(v) * float64(v) // exact, so that fusing changes nothing
		}
	}
}

func nonFiniteGeneric(x []float32) int {
	const exponent = 0x7f800000 // all ones in NaNs and infinities
	for i, v := range x {
		if math.Float32bits(v)&exponent == exponent {
			return i
		}
	}
	return -1
}
