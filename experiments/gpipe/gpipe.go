// Package gpipe has the claims of the GPipe paper and lists the experiments on them.
package gpipe

import (
	"embed"

	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/gpipe/sensitivity"
	"gpipebench/experiments/gpipe/table1"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/lab"
	_ "gpipebench/lab/samebits" // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is GPipe, in both of its versions (Huang et al., arXiv 1811.06965).
var Paper = lab.Paper{
	Name: "gpipe", Title: "GPipe", Of: "the GPipe paper",
	Experiments: []lab.Definition{
		table1.Definition,
		{ID: "counts", New: counts.New, Untimed: true},
		{ID: "table2", New: newTable2},
		{ID: "table2-amoebanet", New: newTable2Amoebanet, Command: "table2"},
		modelled.Definition,
		figure3.Definition,
		{ID: "breakdown", New: newBreakdown},
		table3.Definition,
		{ID: "consistency", TypedActivations: true},
		{ID: "consistency-accuracy", Untimed: true, Command: "consistency"},
		{ID: "consistency-scopes", Untimed: true, Command: "consistency"},
		{ID: "precision", Untimed: true},
		{ID: "delayed-reduction", New: newDelayedReduction},
		{ID: "stability", New: lab.New[stability]},
		{ID: "stability-threshold", New: lab.New[threshold], Untimed: true, Command: "stability"},
		{ID: "transfer", New: lab.New[transfer], Untimed: true},
		{ID: "learning"},
		{ID: "translation"},
		{ID: "translation-quality", New: lab.New[quality], Untimed: true},
		{ID: "ablation", New: ablation.New},
		{ID: "validation", New: newValidation},
		{ID: "efficiency", New: efficiency.New},
		sensitivity.Definition,
	},
}.Embedded(folder)
