// Package records stores samples: one line of JSON each, with its checksum, its key (everything
// that determines it) and its provenance.
//
// A sample is one line of JSON, written in one piece as soon as it has been measured, with a
// SHA-256 over the line before it. The first sample of a process is preceded by a line about the
// program and machine: the commit, the digest of the engine (the tokens of internal/kernel, nn,
// models, gpipe and datasets, so neither comments nor tests count), machine and process.
// Without that line the samples do not count. Samples are keyed by experiment, profile, spec
// and machine, or without a machine if nothing is timed, since all machines give the same bits. A
// sample that a design judges has the design's digest. Samples of another engine count, and are
// reported.
//
// Only one process at a time may add samples. An incomplete last line is moved to a separate
// file (.torn) and measured again. A line whose checksum does not match does not count. The
// checksum is not a signature: if a record and its checksum are both changed, the tables made
// from them, or git, reveal it.
package records
