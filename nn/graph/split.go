package graph

// Split says how the parts of a stage can divide a parameter: along Axis, which has Sections equal
// sections one after another (the columns of queries, of keys and of values), each of Units units of
// one width (heads, columns, rows of a vocabulary, channels), by these units, every section alike. Zero: each
// part has all of it.
type Split struct {
	Axis, Sections, Units int
	// Summed says that rows of results are summed along the axis, as a softmax does, in trees of 64
	// lanes: where parts go on with each other's sums, 64 units are one.
	Summed bool
}
