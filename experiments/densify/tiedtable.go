package densify

import (
	"math"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/reduction"
)

// tableWays are the ways to accumulate a table's gradient over ranks: the one that the paper finds, and the one that it
// puts in its place.
var tableWays = []gpipe.TableGradients{gpipe.GatherTied, gpipe.ReduceTied}

// Bytes of a float32 and of an index.
const (
	floatBytes = 4
	indexBytes = 4
)

// tiedTable is a table of embeddings that a translator's two embeddings share with its
// softmax, and what one rank's mini-batch reads of it.
type tiedTable struct {
	Vocab  int `yaml:"vocab" want:"1..16777216"` // rows
	Dim    int `yaml:"dim" want:"1..1048576"`    // columns
	Source int `yaml:"source" want:"0..1048576"` // tokens of a rank's mini-batch
	Target int `yaml:"target" want:"0..1048576"` // the same, on the other side
}

// DenseBytes is the size of its gradient as a tensor, whatever the number of ranks.
func (t tiedTable) DenseBytes() int64 { return floatBytes * int64(t.Vocab) * int64(t.Dim) }

// Rows is the number of rows that a rank's gradient has if it is gathered: one for each
// token of either side, and all rows of the table for the softmax, whose dense gradient is
// turned into rows (the formula is NVIDIA/OpenSeq2Seq's, pull request 249).
func (t tiedTable) Rows() int64 { return int64(t.Vocab) + int64(t.Source) + int64(t.Target) }

// GatheredBytes is the size of the gradient that every rank has once it is gathered, less
// IndexBytes, which the paper does not count.
func (t tiedTable) GatheredBytes(ranks int) int64 {
	return floatBytes * int64(ranks) * t.Rows() * int64(t.Dim)
}

// IndexBytes is the size of the gathered rows' indices.
func (t tiedTable) IndexBytes(ranks int) int64 { return indexBytes * int64(ranks) * t.Rows() }

// GatherSeconds is the time of an all-gather of the rows along a ring of ranks: each
// receives all of them but its own. With one rank it is 0.
func (t tiedTable) GatherSeconds(ranks int, link clock.Link) float64 {
	_, gather := reduction.Cost(reduction.Ring, ranks, 1, float64(t.GatheredBytes(ranks)), link)
	return gather
}

// reduceSeconds is the time of an all-reduce of bytes along a ring of ranks.
func reduceSeconds(ranks int, bytes int64, link clock.Link) float64 {
	reduce, gather := reduction.Cost(reduction.Ring, ranks, 1, float64(bytes), link)
	return reduce + gather
}

// MostCounted is the most ranks of which the gathered values can be counted by a signed
// 32-bit number, as the displacements of MPI_Allgatherv are, in units of unit bytes.
func (t tiedTable) MostCounted(unit int) int {
	return int(math.MaxInt32 / (t.GatheredBytes(1) / int64(unit)))
}

// MostHeld is the most ranks whose gathered gradient fits a node of the given memory, in
// bytes, that runs some ranks of its own, each with a number of copies of it. Nothing else is
// counted, so that fewer may fit.
func (t tiedTable) MostHeld(memory int64, ranks, copies int) int {
	return int(memory / (int64(ranks) * int64(copies) * t.GatheredBytes(1)))
}

// GatherTravels is what ranks receive together when they gather rows and
// indices: each all but its own.
func (t tiedTable) GatherTravels(ranks int) int64 {
	return int64(ranks-1) * (t.GatheredBytes(ranks) + t.IndexBytes(ranks))
}

// ReduceTravels is the same when they reduce: once to be added up, and once as sums, all
// but what a rank adds up itself.
func (t tiedTable) ReduceTravels(ranks int) int64 { return 2 * int64(ranks-1) * t.DenseBytes() }

// TokenBytes is the size of the rows that a rank's tokens have before they are added to
// the table's.
func (t tiedTable) TokenBytes() int64 {
	return floatBytes * (int64(t.Source) + int64(t.Target)) * int64(t.Dim)
}

// SummedBytes is the size of what each of ranks adds up once it has gathered: all
// rows of tokens, and the tables of all ranks but one.
func (t tiedTable) SummedBytes(ranks int) int64 {
	return int64(ranks)*t.TokenBytes() + int64(ranks-1)*t.DenseBytes()
}
