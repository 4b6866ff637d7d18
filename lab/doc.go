// Package lab defines an experiment (a spec, samples, tables) and has what all
// experiments share to read specs and to write reports.
//
// # Papers
//
// A paper is a folder of experiments: claims.yaml, a folder for each experiment (spec.yaml,
// about.md), and a package that lists them. The experiments of GPipe are what reproduce makes;
// `--paper NAME|all` and the command NAME run others. The paper called beyond is what no
// publication has.
//
// # Specs
//
// A spec is checked against its Go type before anything is measured (package yamldoc).
// Refused, with file, line and column, are an unknown or missing field, a value of another
// type, an empty list, an entry that is there twice, and a name that cannot name a sample or
// file. Every network of a spec that is given by --spec is traced, whatever the profile. The
// key of records has a digest of what the spec says for the profile, so samples of specs that
// say different things never mix; comments, layout and fields that are only shown may change.
// One thing may be other: the K and M of a [Grid], which are in the samples' names. A run then
// takes samples of another (records.Log.Take), but timed ones only if it takes all of them.
//
// A number of a paper is a [Verbatim], which every spec may lack: what follows from it is NaN, which
// tables show as "-" and plots leave out.
//
// # Designs
//
// What trainings over seeds show is judged by the design of the spec ([Design]), which is committed
// before the first of them: the profiles that it judges, the numbers of seeds at which verdicts may
// be read (looks), the level, a margin with its unit and reason, gates of competence, and the
// comparisons that claims name (primaries), expressions over the scores of arms, seed by seed. All
// primaries are one family; lab/verdict has the rule. A report begins with what as many seeds can see.
//
// A design decides nothing of a sample and is in no key; its digest, without reasons, is in each
// record that is made under it. Reproduce refuses a sample of another seed, and a design that has
// changed since the first record; verify fails where a record's seed or digest is another, or the
// record is older than the registration. No seed is added: other seeds are another key and another
// design. Designs that were written after their records have registered: none, and why; their
// verdicts are exploratory. Records have no scores of single sentences or images, so that intervals
// cover other seeds alone.
//
// # Two sizes
//
// Profile quick takes a quarter of an hour, and some of its networks are too small to decide a
// claim. What depends on size is judged at profile full, which takes hours, in pieces that may
// be interrupted; its results are a directory of their own. Profile smoke tests the program,
// and its numbers mean little.
package lab
