// Package claims judges what papers claim, by expressions over tables.
//
// # A claim
//
// A claim of a paper's claims.yaml has an id that never changes, a kind (the file's head
// defines them) and a check, an expression by its basis: measured, modelled, counted or
// arithmetic. With two bases there are two claims, so that a model and a measurement never
// share a verdict. A check with a tolerance is a number that is compared with the paper's, any
// other a condition. Tolerances have names and reasons. The kind says what evidence there could
// be and not what came out. A tolerance within which a factor is 1, no effect, is refused: that
// of a small factor is of its gain, the difference from 1.
//
// What trainings over seeds show has no check: the claim says design: EXPERIMENT/PRIMARY, and the
// experiment's design gives the verdict, with the words of lab/verdict. A measured check that reads
// a table of such an experiment is refused, since it would decide by a point estimate or without the
// correction for the family. At a profile that the design does not judge, a claim shows its figure and
// counts in no total of what agrees.
//
// # Facts and rows
//
// A cell that several claims judge is one fact: all but one are the same as that one, are shown,
// and count in no total. What a paper leaves open (M, the mini-batch, the cut, the use of links)
// is unstated, with the span of our figures over it: a figure outside its tolerance is within
// what is unstated if the paper's is in that span. A [Row] of a ledger's headline is a sentence of
// the paper in plain words. One rule makes its verdict of those on its claims: claims for it
// alone make it hold, claims against it alone differ, both, or claims for it and open ones, make it
// hold in part, and if none is for or against it, it cannot be told here, or is not decided yet while a
// claim waits for trainings of profile full. No claim is outvoted.
//
// # Expressions
//
// They read cells of the tables, which verify makes anew from the records: cell("table2",
// "measured", "k", 8, "m", 32) is the number in the column with that ID, in the row where K is
// 8 and M 32. A column's ID is its head in lower case with dashes, and stays if the head
// changes. A claim reads the exact number, in seconds, bytes or percent, so no verdict depends
// on a format. A number carries its 95% interval through the expression (package expr); if the
// intervals leave a comparison open, the claim is not decided here. Interval arithmetic takes
// the uses of a number as independent, so a claim that compares two columns of one experiment
// reads a column with their ratio or difference.
//
// # Verify
//
// [Verifying] says what to check, and where. Its Read makes a [Reading]: of each experiment in each
// directory what its records hold, an [Examined]. The reading's Judge makes the [Verification], which has a
// [Judgement] for each claim; pages and documents are made of the reading as well.
//
// Every report is made again from the records and compared with the files in tables: all of
// them must be there and no others. A claim whose cells are missing has no record, which fails
// only if strict. Two claims say that the modelled host is within 10% of emulated runs; they
// are left open, and do not fail, only where the emulated steps themselves differ from round
// to round by more than that.
//
// # A claim must be able to fail
//
// falsify_test.go moves what each claim reads and demands that the verdict turns; then it
// loosens the claim and demands that this is noticed. falsified_by has values that a condition
// must not accept, where a factor of four says too little. Of what a design judges
// TestDesignedClaimsCanTurn moves the differences.
package claims
