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
// are no others', of all or a share of its steps. The rate with the least loss is the arm's; while it is at
// an end of those that were tried, the next one beyond it may be tried (widen). They are in the records, as
// ARM/lr=RATE/seedN. An arm's optimiser may want a multiple of these rates (pilots_times). An arm may instead have a multiple of another's rate.
//
// A pace (profiles.NAME.pace, or an arm's own) sets schedules and evaluations by the number of steps of each
// training, so that arms of other lengths and pilots are alike, and may end a training that no longer
// improves. Trainings that are watched (watch) end where they collapse, which is their outcome.
//
// Where a training says eval_every and keeps its last weights, its held-out losses on the way are in the
// record. An arm with a target, another or itself, has the steps to the target's loss at the end, or within
// some nats of it (within).
//
// Translators may see one language alone (only), in the vocabularies of all. Its steps are in the spec, and the
// column exposure shows whether it saw that language as often as the baseline did. With baselines the records
// also have what a copy of the source and a dictionary score, of each seed's sentences.
//
// Trainings may end at a held-out accuracy (until), and are then compared by epochs, by which pilots
// also choose.
//
// Profiles may have sets of images, which arms name; what they are found to be, and how frequent the
// most frequent class is, is a sample before anything is trained. An arm may begin with another's
// weights of the same seed and a new last layer (from).
//
// What is shown decides no sample. Tables, lines and bars are words of the spec (package shown) over rows of arms
// (no name), pairs, languages (by-language; of whole records languages) or yardsticks; captions are templates over
// figures of the first arm's training (Reporting.figures). A row has an arm's scores by seed, each under its name with _
// in place of other signs than letters and digits: held_out, smoothed_BLEU. A column shows their mean, sd, median or
// largest, as mean(held_out). It also has comparisons with the first arm, or within the pair, and what else values.go
// lists; before_NAME is the reference's. A name that no row of a profile can have is refused before anything is trained.
// Panels are forms of this kind. Margin and level belong to the tests that a table shows, and stand in the key.
//
// What decides about claims is the spec's design (lab.Design), by the same scores of arms (Experiment.Scores). Seeds are
// all that there will be: none is added when results are known.
//
// An experiment that needs more stretches the kind in Go: fields of its own in the spec, samples, and values of rows.
package trained
