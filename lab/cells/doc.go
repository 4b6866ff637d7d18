// Package cells is the kind of experiment whose rows are modelled, counted or computed ([Kind]). It also
// models the cells of a table with the paper's own networks on its accelerators, under each convention
// that the paper leaves open ([Scale]), or with mini-batches that fill memory ([Filling]).
//
// An experiment of this kind provides functions of its spec: which rows there are, and how the samples
// of each are made (kind.go). Columns and bars are described in the spec, over a row's values and
// samples (package shown).
package cells
