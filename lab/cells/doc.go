// Package cells is the kind of experiments whose rows are modelled, counted or computed ([Kind]), and
// models the cells of a table with the paper's own networks on its accelerators, under the
// conventions that the paper leaves open ([Scale]), or with mini-batches that fill memory ([Filling]).
//
// An experiment of the kind gives it functions of its spec: which rows there are, and what makes the
// samples of each (kind.go). Columns and bars are words of the spec over what a row has and its samples
// say (package shown).
package cells
