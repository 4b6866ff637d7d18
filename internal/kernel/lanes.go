package kernel

// Row reductions whose rows are in several pieces, one after another, of which all but the last have a
// multiple of 64 elements: what goes from piece to piece are the lanes of the trees. With the last
// piece the lanes fold to what the reduction of the whole row is.

// ExpLanes and SumLanes are the lanes of the trees that sum up exponentials and elements of a row, and of
// those that sum up squares.
const ExpLanes, SumLanes = narrowTree, wideTree

// RowMax returns the largest element of x. It ignores NaNs; the maximum of no element is -Inf.
func RowMax(x []float32) float32 { return rowMax(x) }

// RowSum returns the sum of x.
func RowSum(x []float32) float32 { return rowSum(x) }

// ExpSum returns the sum of exp(x - shift).
func ExpSum(x []float32, shift float32) float32 { return expSum(x, 1, shift) }

// AddExps adds exp(x - shift) to [ExpLanes] lanes.
func AddExps(lanes, x []float32, shift float32) {
	var buffer [16 * wideTree]float32
	for len(x) > 0 {
		n := min(len(x), len(buffer))
		expShift(buffer[:n], x[:n], 1, shift)
		addLanes(lanes, buffer[:n])
		x = x[n:]
	}
}

// AddRow adds x to [SumLanes] lanes.
func AddRow(lanes, x []float32) { addLanes(lanes, x) }

// AddSquares adds the squares of x to [SumLanes] lanes.
func AddSquares(lanes []float64, x []float32) { addSquares(lanes, x) }

// Fold returns the sum of lanes, which it overwrites.
func Fold[T float32 | float64](lanes []T) T { return foldLanes(lanes) }
