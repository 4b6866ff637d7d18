// Package consistency shows that training does not depend on how it is cut.
package consistency

import (
	"embed"

	"gpipebench/lab"
	"gpipebench/lab/samebits"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "consistency", Folder: folder, New: lab.New[samebits.Experiment], TypedActivations: true}
