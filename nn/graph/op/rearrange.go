package op

// Concat joins tensors along the last dimension (channels).
type Concat struct{}

// Slice takes the columns From <= j < To of the last dimension.
type Slice struct{ From, To int }

// Pad adds columns of zeros before and after the last dimension.
type Pad struct{ Before, After int }

// Sum is the sum over the Axes dimensions from Axis on, which disappear.
type Sum struct{ Axis, Axes int }

// Dims returns the sizes before, in and after the dimensions that are summed.
func (o Sum) Dims(x []int) (outer, n, inner int) { return around(x, o.Axis, o.Axes) }

// Max is the largest of the elements of x along Axis, which disappears; NaN if one of them is.
type Max struct{ Axis int }

// Dims returns the sizes before, of and after the dimension.
func (o Max) Dims(x []int) (outer, n, inner int) { return around(x, o.Axis, 1) }

// MaxGrad takes dy, x, y. The first of equal maxima gets the gradient.
type MaxGrad struct{ Axis int }

// around returns the sizes of x before, in and after some of its axes.
func around(x []int, axis, axes int) (outer, n, inner int) {
	outer, n, inner = 1, 1, 1
	for i, d := range x {
		switch {
		case i < axis:
			outer *= d
		case i < axis+axes:
			n *= d
		default:
			inner *= d
		}
	}
	return outer, n, inner
}

// Repeat inserts a dimension of N copies as dimension Axis.
type Repeat struct{ Axis, N int }

// ExampleSum adds the examples of x (n, ...) to its output (...), in order.
type ExampleSum struct{}

// Gather takes rows of each example: x (n, t, ...) and index (n, k) int32 give (n, k, ...).
type Gather struct{}

// GatherGrad adds rows of dy (n, k, ...) to those rows of zeros (n, Rows, ...) that index (n, k)
// names, in ascending order of k; inputs dy, index.
type GatherGrad struct{ Rows int }

// Reshape gives x (n, ...) the shape (n, Dims...). Its kernel moves nothing
// where x is not needed afterwards.
type Reshape struct {
	Dims [MaxDims]int // of an example; zeros after the last
}

// MaxDims is the largest number of dimensions of an example.
const MaxDims = 7

// Transpose exchanges the dimensions A < B.
type Transpose struct{ A, B int }

// OneHot turns ids (...) int32 into rows (..., Classes) of zeros with a one at
// the id; rows of negative ids have none.
type OneHot struct{ Classes int }

// Embed looks tokens up: from table (v, d), ids (b, t) int32 and, if it has them, positions
// (t', d) with t' >= t it computes y (b, t, d) = table[id]*Scale +
// positions[i], where i is the token's index in its sequence.
type Embed struct{ Scale float32 }

// EmbedGrad adds Scale*dy to the rows of its output (Vocab, d) that ids name,
// in token order; inputs dy, ids.
type EmbedGrad struct {
	Vocab int
	Scale float32
}
