// Package mlperf has the claims of the paper on scaling MLPerf's models on pods of TPUs, and
// lists the experiments on them.
package mlperf

import (
	"embed"

	"gpipebench/experiments/mlperf/bucketing/input"
	evaluationmeasured "gpipebench/experiments/mlperf/evaluation/measured"
	"gpipebench/experiments/mlperf/hoisting"
	spatialemulated "gpipebench/experiments/mlperf/spatial/emulated"
	summationmeasured "gpipebench/experiments/mlperf/summation/measured"
	updatemeasured "gpipebench/experiments/mlperf/update/measured"
	"gpipebench/lab"
	_ "gpipebench/lab/samebits" // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is Kumar et al. 2019, "Scale MLPerf-0.6 models on Google TPU-v3 Pods".
var Paper = lab.Paper{
	Name: "mlperf", Title: "MLPerf-0.6 models on pods of TPUs", Of: "the paper on scaling MLPerf's models",
	Experiments: []lab.Definition{
		{ID: "update-sharding", New: updateSharding.New, Untimed: true},
		updatemeasured.Definition,
		{ID: "gradient-summation", New: gradientSummation.New, Untimed: true},
		summationmeasured.Definition,
		{ID: "lars-epochs", New: lab.New[epochs], Untimed: true},
		{ID: "distributed-evaluation", New: distributedEvaluation.New, Untimed: true},
		evaluationmeasured.Definition,
		{ID: "bfloat16-rules", New: bfloat16Rules.New, Untimed: true},
		{ID: "benchmark-seconds", New: benchmarkSeconds.New, Untimed: true},
		{ID: "spatial-partitioning", New: spatialPartitioning.New, Untimed: true},
		spatialemulated.Definition,
		{ID: "spatial-bits", Untimed: true, Command: "spatial-partitioning"},
		{ID: "mask-rcnn-partitioning", New: maskRCNNPartitioning.New, Command: "spatial-partitioning", Untimed: true},
		{ID: "bucketing", New: lab.New[bucketing], Untimed: true},
		input.Definition,
		hoisting.Definition,
		{ID: "gnmt-quality", Untimed: true},
	},
}.Embedded(folder)
