// Package beyond has claims that no paper makes, about this suite itself, and lists the
// experiments on them.
package beyond

import (
	"embed"

	"gpipebench/lab"
	_ "gpipebench/lab/samebits"
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is what no publication has.
var Paper = lab.Paper{
	Name: "beyond", Title: "Beyond the papers: our own experiments", Of: "our own experiments", Picture: "replicas-scaling",
	Experiments: []lab.Definition{
		{ID: "replicas", Part: "Replicas"},
		{ID: "replicas-scaling", New: newReplicasScaling, Command: "replicas"},
		{ID: "replicas-modelled", New: replicasModelled.New, Command: "replicas"},
		{ID: "processes", Part: "Processes", New: lab.New[processes]},
		{ID: "processes-throughput", New: newProcessesThroughput, Command: "processes"},
	},
}.Embedded(folder)
