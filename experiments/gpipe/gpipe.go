// Package gpipe has the claims of the GPipe paper and lists the experiments on them.
package gpipe

import (
	"embed"

	"gpipebench/lab"
	_ "gpipebench/lab/samebits" // a kind
	_ "gpipebench/lab/trained"  // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is GPipe, in both of its versions (Huang et al., arXiv 1811.06965).
var Paper = lab.Paper{
	Name: "gpipe", Title: "GPipe", Of: "the GPipe paper", Picture: "table2",
	Experiments: []lab.Definition{
		{ID: "table1", Part: "Size and speed", New: lab.New[table1]},
		{ID: "counts", New: counts.New, Untimed: true},
		{ID: "table2", New: newTable2},
		{ID: "table2-amoebanet", New: newTable2Amoebanet, Command: "table2"},
		{ID: "table2-modelled", New: newTable2Modelled, Command: "table2"},
		{ID: "figure3", New: newFigure3},
		{ID: "breakdown", New: newBreakdown},
		{ID: "table3", New: newTable3},
		{ID: "consistency", Part: "The same updates", TypedActivations: true, Hashes: true},
		{ID: "consistency-accuracy", Untimed: true, Command: "consistency"},
		{ID: "consistency-scopes", Untimed: true, Command: "consistency"},
		{ID: "precision", New: newPrecision, Untimed: true},
		{ID: "delayed-reduction", Untimed: true},
		{ID: "stability", Part: "What is learnt", Untimed: true},
		{ID: "transfer", Untimed: true},
		{ID: "learning"},
		{ID: "translation"},
		{ID: "translation-quality", Untimed: true},
		{ID: "translation-invented", Untimed: true, Command: "translation-quality"},
		{ID: "large-batches", Untimed: true, Command: "translation-quality"},
		{ID: "section6", Part: "Section 6", New: newSection6, Untimed: true, Apart: true},
		{ID: "section6-staleness", Untimed: true, Apart: true, Command: "section6"},
		{ID: "section6-traffic", New: section6Traffic.New, Untimed: true, Apart: true, Command: "section6"},
		{ID: "section6-memory", New: section6Memory.New, Untimed: true, Apart: true, Command: "section6"},
		{ID: "section6-links", New: section6Fastest.New, Untimed: true, Apart: true, Command: "section6"},
		{ID: "section6-emulated", New: newSection6Emulated, Apart: true, Command: "section6"},
		{ID: "section6-depth", New: section6Fastest.New, Untimed: true, Apart: true, Command: "section6"},
		{ID: "ablation", Part: "The model behind it", New: ablation.New},
		{ID: "validation", New: newValidation},
		{ID: "efficiency", New: efficiency.New},
		{ID: "sensitivity", New: newSensitivity},
		{ID: "unstated", New: newUnstated},
		{ID: "calibrated", New: newCalibrated},
	},
}.Embedded(folder)

// another is another experiment of the paper, which has cells or a spec in common with the one that
// is made. Paper, which lists both, cannot be asked for it.
func another[E lab.Experiment](id string, New func() (lab.Experiment, error)) (e E, err error) {
	of, err := lab.Definition{ID: id, Folder: folder, New: New}.Load()
	if err == nil {
		e = of.(E)
	}
	return e, err
}
