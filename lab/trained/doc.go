// Package trained is the kind of experiment whose samples are whole training runs: arms, each run
// with several seeds, compared in pairs with the same seed.
//
// # What a spec says
//
// A spec has a base (setup, data, and a training in each profile) and arms. An arm is the base with
// changes: its non-zero fields in setup and training, or those for one profile
// (profiles.NAME.arms.ARM). The first arm is the baseline. All of this determines the samples, which are
// named ARM/seedN. An arm without seeds (whole: true) leaves a record of its whole run, losses
// included, under its own name; another arm may repeat its first steps, to the same bits.
//
// Pilots (profiles.NAME.pilots) are runs of every arm at several learning rates, with seeds that are used
// for nothing else, over all or a share of its steps. The arm uses the rate with the lowest loss; if that is
// the lowest or highest rate tried, the next one beyond it may be tried (widen). Pilots are in the records, as
// ARM/lr=RATE/seedN. An arm's optimiser may need a multiple of these rates (pilots_times), or an arm may use a
// multiple of another arm's rate.
//
// A pace (profiles.NAME.pace, or an arm's own) derives schedules and evaluations from each run's number of
// steps, so that arms of different lengths and pilots are treated alike; it may end a run that no longer
// improves. Runs that are watched (watch) end when they collapse, which is then their outcome.
//
// If a training sets eval_every and keeps its last weights, its held-out losses on the way are in the
// record. An arm with a target, another arm or itself, shows the steps that it took to the target's final
// loss, or to within some nats of it (within).
//
// Translators may be trained on one language (only), with the vocabularies of all. The number of steps is in
// the spec, and the column exposure shows whether the arm saw that language as often as the baseline did. With
// baselines the records also have the scores of copying the source and of a dictionary, on each seed's sentences.
//
// Runs may end at a held-out accuracy (until); runs and pilots are then compared by epochs.
//
// Profiles may have sets of images, which arms name; the contents found there, and the share of the most
// frequent class, are a sample that is recorded before anything is trained. An arm may start from another
// arm's weights with the same seed and a new last layer (from).
//
// What is shown does not affect samples. Tables, lines and bars are described in the spec (package shown) over rows of
// arms (no name), pairs, languages (by-language; for whole records languages) or yardsticks; captions are templates over
// figures of the first arm's training (Reporting.figures). A row has an arm's scores by seed, named with _ in place of
// all characters except letters and digits: held_out, smoothed_BLEU. A column shows their mean, sd, median or
// largest, as in mean(held_out). It can also show comparisons with the first arm, or within the pair, and whatever else
// values.go lists; before_NAME is the reference's value. A name that no row of a profile can have is refused before
// anything is trained. Panels are specific to this kind. Margin and level belong to the tests that a table shows, and are
// part of the key.
//
// Claims are decided by the spec's design (lab.Design), on the same scores of arms (Experiment.Scores). The seeds are
// fixed: none is added when results are known.
//
// An experiment that needs more extends the kind in Go, with its own fields in the spec, samples, and row values.
package trained
