// Package replicas shows that training does not depend on the number of replicas.
package replicas

import (
	"embed"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/ways"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "replicas", Folder: folder, New: suite.New[ways.Experiment]}
