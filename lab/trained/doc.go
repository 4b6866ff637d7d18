// Package trained is the kind of experiment whose samples are trainings to the end: arms over
// seeds, compared in pairs of one seed.
//
// # What a spec says
//
// A base (setup, data, and a training in each profile) and arms, each of which is the base but for
// what it changes: fields that are not 0, in setup and training, or in one profile alone
// (profiles.NAME.arms.ARM). The first arm is the baseline. All of this decides samples, whose names are
// ARM/seedN. An arm without seeds (whole: true) leaves a record of its whole training, losses
// included, under its own name; another arm may repeat its first steps, to the same bits.
//
// Pilots (profiles.NAME.pilots) are trainings of every arm at each of some rates, with seeds that
// are no others'. The rate with the least held-out loss is the arm's. They are in the records, as
// ARM/lr=RATE/seedN.
//
// What is shown decides no sample: tables (rows of arms, pairs, pilots, yardsticks, languages or a
// curve; columns are words, see words), captions and notes as text in which words in braces stand for
// figures, panels, and the text of the verdict. Margin and level stand in the key although they decide
// no sample: a margin that is changed after the fact is another experiment.
//
// An experiment that needs more stretches the kind in Go: fields of its own in the spec, samples,
// words and panels.
//
// # What is not built
//
// The kind was tried on paper against two designs that are to be written in it: translators of six
// languages whose bilingual networks see exactly the tokens of their language (TQ), and deep
// translators with and without two cures, by the time to collapse (stability). What their specs would
// say and this package does not read, since no spec of today would:
//
//   - A design (shown, and thus in no key): the day it was registered, all seeds that will ever be used, the
//     numbers of seeds at which verdicts may be read, with the spending of error over them, the primary
//     comparisons, which are one family of Holm's, and the margin with its reason. Comparisons
//     would be named as pairs are, so primaries: [deep-small] is a list of labels of pairs. What is
//     compared with Compare at a margin and a level would take the level from the look and the family.
//     Reports would read complete looks only; Each already takes the seeds that it is given, so
//     that measuring up to the next look is a slice of them. added_seeds goes when designs come.
//   - Gates: conditions over the tables of the same report, such as "the baseline learned more than a
//     dictionary" or "no rate was chosen at the edge of the grid" (the table of pilots has what that
//     needs). They are expressions of the language of claims, and would be read where claims are: this
//     package renders the tables.
//   - Pilots that are shorter than the training (a share of the budget), or more rates where the
//     choice is at an edge. A field of Pilots each; makePilot is handed the training.
//   - Arms that share all but the data of each other, by language, with as many tokens of it (TQ): an arm's
//     data is a source, so one arm for each language can be said; tokens as the unit of a budget cannot.
//   - Evaluations on the way, of which the best by a second held-out set is kept (TQ), and the step at
//     which a loss first leaves its running minimum (stability): other records than Trial and Whole. A
//     record is made by one function that is handed to Each, and read by words.
//   - Statistics beside the paired t: McNemar's exact test and signs (stability), the variance of test
//     items (TQ, for which records would keep scores of each item). A metric is a function of an arm's trials.
package trained
