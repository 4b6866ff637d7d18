// Package claims judges papers' claims by expressions over tables.
//
// # A claim
//
// A claim of a paper's claims.yaml has an id that never changes, a kind (the file's head
// defines them) and a check: one expression for each basis (measured, modelled, counted or
// arithmetic). Two bases make two claims, so that a model and a measurement never share a
// verdict. A check with a tolerance is a number that is compared with the paper's, any other
// check is a condition. Tolerances have names and reasons. The kind says what evidence is
// possible, not what the result was. A tolerance that would accept a factor of 1, no effect, is
// refused: for a small factor the tolerance is on its gain, the difference from 1.
//
// A claim on training results over several seeds has no check: it says design: EXPERIMENT/PRIMARY,
// and the experiment's design gives the verdict, in the terms of lab/verdict. A measured check that
// reads a table of such an experiment is refused, since it would decide by a point estimate or
// without the correction for the family. At a profile that the design does not judge, a claim shows
// its figure, and is left out of all totals of agreement.
//
// # Facts and rows
//
// A cell that several claims judge is one fact: one claim counts, and the others are marked as the
// same, shown, and left out of totals. Settings that a paper leaves open (M, the mini-batch, the
// cut, the use of links) are unstated, and our figure has a range over them: a figure outside its
// tolerance is within what is unstated if the paper's figure is in that range. A [Row] of a ledger's
// headline is a sentence of the paper in plain words. Its verdict follows from those on its claims:
// it holds if there are only claims for it, and differs if there are only claims against it (open
// ones aside); with claims for it and others against it or open, it holds in part. With none for or
// against it, it cannot be told here, or is not decided yet while a claim waits for training runs of
// profile full. No claim is outvoted.
//
// # Expressions
//
// They read cells of the tables, which verify rebuilds from the records: cell("table2",
// "measured", "k", 8, "m", 32) is the number in the column with that ID, in the row where K is
// 8 and M is 32. A column's ID is its head in lower case with dashes, and stays if the head
// changes. A claim reads the exact number, in seconds, bytes or percent, so no verdict depends
// on a format. A number carries its 95% interval through the expression (package expr); if the
// intervals leave a comparison open, the claim is not decided here. Interval arithmetic treats
// all uses of numbers as independent, so a claim that compares two columns of one experiment
// reads a column with their ratio or difference.
//
// # Verify
//
// [Verifying] says what to check, and where. Its Read returns a [Reading], with an [Examined] for
// the records of each experiment in each directory. Its Judge returns the [Verification], with a
// [Judgement] for each claim; pages and documents are also made from the reading.
//
// Every report is rebuilt from the records and compared with the files in tables: all must
// exist, and no others. A claim whose cells are missing has no record, which is a failure
// only if strict. Two claims say that the modelled host is within 10% of emulated runs; they
// are left open instead of failing only if the emulated steps themselves vary from round to
// round by more than that.
//
// # A claim must be able to fail
//
// falsify_test.go changes the values that each claim reads and requires that the verdict changes;
// then it loosens the claim and requires that this is noticed. falsified_by has values that a
// condition must not accept, where the default change by a factor of four is too coarse. For claims
// that a design judges, TestDesignedClaimsCanTurn changes the differences.
package claims
