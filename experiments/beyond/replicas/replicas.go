// Package replicas shows that training does not depend on the number of replicas.
package replicas

import (
	"embed"

	"gpipebench/lab"
	"gpipebench/lab/samebits"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "replicas", Folder: folder, New: lab.New[samebits.Experiment]}
