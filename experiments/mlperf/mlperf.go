// Package mlperf has the claims of the paper on scaling MLPerf's models on pods of TPUs, and
// lists the experiments on them.
package mlperf

import (
	"embed"

	"gpipebench/experiments/mlperf/bucketing/input"
	"gpipebench/experiments/mlperf/evaluation"
	evaluationmeasured "gpipebench/experiments/mlperf/evaluation/measured"
	"gpipebench/experiments/mlperf/hoisting"
	"gpipebench/experiments/mlperf/rules"
	"gpipebench/experiments/mlperf/seconds"
	"gpipebench/experiments/mlperf/spatial"
	spatialbits "gpipebench/experiments/mlperf/spatial/bits"
	spatialemulated "gpipebench/experiments/mlperf/spatial/emulated"
	"gpipebench/experiments/mlperf/spatial/maskrcnn"
	"gpipebench/experiments/mlperf/summation"
	summationmeasured "gpipebench/experiments/mlperf/summation/measured"
	"gpipebench/experiments/mlperf/update"
	updatemeasured "gpipebench/experiments/mlperf/update/measured"
	"gpipebench/lab"
	_ "gpipebench/lab/trained" // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is Kumar et al. 2019, "Scale MLPerf-0.6 models on Google TPU-v3 Pods".
var Paper = lab.Paper{
	Name: "mlperf", Title: "MLPerf-0.6 models on pods of TPUs", Of: "the paper on scaling MLPerf's models",
	Experiments: []lab.Definition{
		update.Definition,
		updatemeasured.Definition,
		summation.Definition,
		summationmeasured.Definition,
		{ID: "lars-epochs", New: lab.New[epochs], Untimed: true},
		evaluation.Definition,
		evaluationmeasured.Definition,
		rules.Definition,
		seconds.Definition,
		spatial.Definition,
		spatialemulated.Definition,
		spatialbits.Definition,
		maskrcnn.Definition,
		{ID: "bucketing", New: lab.New[bucketing], Untimed: true},
		input.Definition,
		hoisting.Definition,
		{ID: "gnmt-quality", Untimed: true},
	},
}.Embedded(folder)
