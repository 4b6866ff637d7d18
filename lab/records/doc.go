// Package records keeps samples: a line of JSON each, with its checksum, its key (what
// decides it) and its provenance.
//
// A sample is one line of JSON, written in one piece as soon as it has been measured, with a
// SHA-256 over the line before it. Before the first sample of a process comes a line that says
// what ran on what: the commit, the digest of the engine (the tokens of internal/kernel, nn,
// models, gpipe and datasets, so neither comments nor tests count), machine and process.
// Without that line its samples do not count. Samples are keyed by experiment, profile, spec
// and machine, or no machine where nothing is timed, since all give the same bits. A sample
// that a design judges has the design's digest. Samples of another engine count, and are reported.
//
// Only one process at a time may add samples. A last line without its end is moved to a
// separate file (.torn) and measured again. A line whose sum is not that of its content does
// not count. The sum is no signature: a record and its sum that are both changed are found by
// the tables made from them, or by git.
package records
