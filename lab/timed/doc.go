// Package timed measures times in rounds, each in a process of its own.
//
// A round times every pipeline once or a few times, and each round begins with another
// pipeline; ratios are taken within a round. A table has the median over rounds and the
// interval of order statistics that holds the true median with 95% confidence whatever the
// distribution, if rounds are independent of one another, which a drift of the machine breaks. That
// takes 6 rounds; with fewer, the table has a warning.
//
// A round is a fresh process, so that the interval includes what is fixed for the life of a
// process, such as where its memory lies. The parent starts its own executable with the hidden
// argument round and writes one line to it: key, round, spec and the existing samples. The
// child measures what its round lacks and prints each sample as a line of the records. Only
// the parent writes to the records file, after it has checked each line. The child ends when
// its input does. Its first warm-up steps do not count: they warm up the process, not each
// pipeline.
//
// Columns of tables are words of the spec (package shown), over what Show returns of each row: figures of
// each round, whose median and interval a column has. A name that no row has is an error of the report,
// which comes after the measurement; its records stay, as words are in no key.
//
// To measure something else in rounds, implement [Repeated].
package timed
