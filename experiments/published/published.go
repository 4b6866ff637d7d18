// Package published has tables of large trainings that others measured and published, and a scoreboard: how
// far the model of package simulate is from each of them, with no factor fitted.
//
// # What is predicted
//
// Seconds of a step and memory of the fullest device, of every row whose training is stated ([Tables], and the
// head of predictions/tables.yaml). Package simulate models it from the row's shapes and layout, the device's
// and the node's figures in the file, and one file for the accelerator: no number is fitted, least of all
// to a table that is judged. What a row does not state and its framework decides (whether sums run beside
// computing, how attention is computed) is in predict.go.
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

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is the publications that have such tables.
var Paper = lab.Paper{
	Name: "published", Title: "Published steps of large trainings, predicted", Of: "the papers with steps of large trainings", Picture: id,
	Experiments: []lab.Definition{
		{ID: id, New: newPredictions, Untimed: true},
	},
}.Embedded(folder)
