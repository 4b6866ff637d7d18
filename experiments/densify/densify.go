// Package densify has the claims of the paper on densifying assumed-sparse tensors, and
// lists the experiments on them.
package densify

import (
	"embed"

	"gpipebench/lab"
	_ "gpipebench/lab/trained" // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is Cavdar et al. 2019, "Densifying Assumed-sparse Tensors" (ISC 2019).
var Paper = lab.Paper{
	Name: "densify", Title: "Densifying assumed-sparse tensors", Of: "the paper on densifying sparse tensors", Picture: "accumulation-measured",
	Experiments: []lab.Definition{
		{ID: "accumulation", Part: "One gradient", New: accumulation.New},
		{ID: "accumulation-measured", New: newAccumulationMeasured},
		{ID: "densify-timeline", New: newTimelines},
		{ID: "densify-scaling", Part: "Whole trainings", New: densifyScaling.New},
		{ID: "densify-weak", New: newDensifyWeak},
		{ID: "densify-accuracy", Untimed: true},
	},
}.Embedded(folder)
