// Package published has tables of large trainings that others measured and published, and a scoreboard: how
// far the model of package simulate is from each of them. [Fitted] says what was chosen in view of them.
//
// # What is predicted
//
// Seconds of a step and memory of the fullest device, of every row whose training is stated ([Tables], and the
// head of predictions/tables.yaml). Package simulate models it from the row's shapes and layout, the device's
// and the node's figures in the file, and one file for the accelerator. What a row does not state and its framework
// decides (whether sums run beside computing, how attention is computed) is in predict.go.
//
// # What it is compared with
//
// A constant share of the peak; and the model with one factor for the device, the median of measured over
// predicted seconds of one named table, never the judged one.
package published

import (
	"embed"

	"gpipebench/lab"
)

// Fitted says what of the model was chosen in view of the tables that it is compared with.
const Fitted = "No factor is fitted, but the model was developed with these tables in view: its effects were chosen that way, and the host's time per operation (kernels.issue) with vtrain-single in view."

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is the publications that have such tables.
var Paper = lab.Paper{
	Name: "published", Title: "Published steps of large trainings, predicted", Of: "the papers with steps of large trainings", Picture: id,
	Experiments: []lab.Definition{
		{ID: id, New: newPredictions, Untimed: true},
	},
}.Embedded(folder)
