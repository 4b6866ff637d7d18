// Package bits shows that training does not depend on the number of parts over which images
// are divided.
package bits

import (
	"embed"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/ways"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "spatial-bits", Folder: folder, New: suite.New[ways.Experiment], Untimed: true, Command: "spatial-partitioning"}
