// Package consistency shows that training does not depend on how it is cut.
package consistency

import (
	"embed"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/ways"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "consistency", Folder: folder, New: suite.New[ways.Experiment], TypedActivations: true}
