// Package lab defines an experiment (a spec, samples, tables) and the code that all
// experiments share for reading specs and writing reports.
//
// # Papers
//
// A paper is a folder of experiments: claims.yaml, a folder for each experiment (spec.yaml,
// about.md), and a package that lists them. By default reproduce runs the experiments of GPipe;
// `--paper NAME|all` and the command NAME run others. The paper called beyond has experiments
// that are in no publication.
//
// # Specs
//
// A spec is checked against its Go type before anything is measured (package yamldoc).
// Unknown or missing fields, values of the wrong type, empty lists, duplicate entries, and names
// that cannot be sample or file names are refused with file, line and column. Every network of a
// spec given by --spec is traced, whatever the profile. The key of records contains a digest of
// the spec's settings for the profile, so samples of different settings never mix; comments,
// layout and fields that are only shown may change. The exception is the K and M of a [Grid],
// which are in the samples' names: a run with other K and M reuses samples of an earlier run
// (records.Log.Take), but timed samples only if all that it needs come from that run.
//
// A number printed in a paper is a [Verbatim], which a spec may omit: values computed from it are
// then NaN, which tables show as "-" and plots leave out.
//
// # Designs
//
// Training results over several seeds are judged by the design in the spec ([Design]), which is
// committed before the first run: the profiles that it judges, the numbers of seeds at which verdicts
// may be read (looks), the level, a margin with its unit and reason, gates of competence, and the
// comparisons that claims name (primaries), which are expressions over the scores of arms, seed by
// seed. All primaries are one family; lab/verdict has the rule. A report begins with the smallest
// effects that this number of seeds can detect.
//
// A design does not affect samples and is in no key; its digest, without reasons, is in each record
// made under it. Reproduce refuses samples with other seeds, and a design that has changed since the
// first record; verify fails if a record has another seed or digest, or is older than the
// registration. Seeds are never added: other seeds are another key and another design. Designs
// written after their records say registered: none, and why; their verdicts are exploratory. Records
// have no scores of single sentences or images, so intervals cover only variation over seeds.
//
// # Two sizes
//
// Profile quick takes minutes, and some of its networks are too small to decide a claim. Claims
// that depend on size are judged at profile full, which takes hours and may be interrupted at any
// time; its results have a directory of their own. Profile smoke tests the program, and its
// numbers mean little.
package lab
