// Package bits shows that training does not depend on the number of parts over which images
// are divided.
package bits

import (
	"embed"

	"gpipebench/lab"
	"gpipebench/lab/samebits"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "spatial-bits", Folder: folder, New: lab.New[samebits.Experiment], Untimed: true, Command: "spatial-partitioning"}
