// Package bubbles has the claims of papers on schedules with less idle time, and lists the
// experiments on them.
package bubbles

import (
	"embed"

	"gpipebench/lab"
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), with the
// schedules that it is compared with.
var Paper = lab.Paper{
	Name: "bubbles", Title: "Bubbles of later schedules", Of: "the papers on schedules after GPipe's", Picture: "bubbles-table5",
	Experiments: []lab.Definition{
		{ID: "bubbles-table5", New: bubblesTable5.New, Untimed: true},
		{ID: "bubbles-formulas", New: bubblesFormulas.New, Untimed: true},
		{ID: "bubbles-gpipe", New: newGPipeTables, Untimed: true},
		{ID: "bubbles-emulated", New: newBubblesEmulated},
	},
}.Embedded(folder)
