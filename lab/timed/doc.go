// Package timed measures times in rounds, each in a process of its own.
//
// A round times every pipeline once or a few times, and each round starts with a different
// pipeline; ratios are taken within a round. A table shows the median over rounds and the
// interval of order statistics that contains the true median with 95% confidence for any
// distribution, if rounds are independent of one another, which drift of the machine would violate.
// That needs 6 rounds; with fewer, the table has a warning.
//
// A round is a fresh process, so that the interval covers effects that are fixed for the life
// of a process, such as memory layout. The parent starts its own executable with the hidden
// argument round and writes one line to it: key, round, spec and the existing samples. The
// child measures the missing samples of its round and prints each as a line of the records.
// Only the parent writes to the records file, after it has checked each line. The child ends
// when its input ends. Its first warm-up steps do not count: they warm up the process, not each
// pipeline.
//
// Columns of tables are described in the spec (package shown), over the values that Show returns for
// each row: one figure per round, of which a column shows the median and interval. A name that no row
// has is an error of the report, after the measurement; the records stay, since descriptions are in no key.
//
// To measure something else in rounds, implement [Repeated].
package timed
