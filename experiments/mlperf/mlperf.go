// Package mlperf has the claims of the paper on scaling MLPerf's models on pods of TPUs, and
// lists the experiments on them.
package mlperf

import (
	"embed"

	"gpipebench/lab"
	_ "gpipebench/lab/samebits" // a kind
)

//go:embed claims.yaml */spec.yaml */about.md
var folder embed.FS

// Paper is Kumar et al. 2019, "Scale MLPerf-0.6 models on Google TPU-v3 Pods".
var Paper = lab.Paper{
	Name: "mlperf", Title: "MLPerf-0.6 models on pods of TPUs", Of: "the paper on scaling MLPerf's models", Picture: "benchmark-seconds",
	Experiments: []lab.Definition{
		{ID: "update-sharding", Part: "Updates and sums", New: updateSharding.New, Untimed: true},
		{ID: "update-measured", New: newUpdateMeasured, Command: "update-sharding"},
		{ID: "gradient-summation", New: gradientSummation.New, Untimed: true},
		{ID: "summation-measured", New: newSummationMeasured, Command: "gradient-summation"},
		{ID: "lars-epochs", Part: "Large batches", Untimed: true},
		{ID: "distributed-evaluation", Part: "Evaluation and precision", New: distributedEvaluation.New, Untimed: true},
		{ID: "evaluation-measured", New: newEvaluationMeasured, Command: "distributed-evaluation"},
		{ID: "bfloat16-rules", New: bfloat16Rules.New, Untimed: true},
		{ID: "benchmark-seconds", Part: "Whole benchmarks", New: benchmarkSeconds.New, Untimed: true},
		{ID: "spatial-partitioning", Part: "Spatial partitioning", New: spatialPartitioning.New, Untimed: true},
		{ID: "spatial-emulated", New: newSpatialEmulated, Command: "spatial-partitioning"},
		{ID: "spatial-bits", Untimed: true, Command: "spatial-partitioning"},
		{ID: "mask-rcnn-partitioning", New: maskRCNNPartitioning.New, Command: "spatial-partitioning", Untimed: true},
		{ID: "bucketing", Part: "Translation", New: lab.New[bucketing], Untimed: true},
		{ID: "input-throughput", New: newInputThroughput, Command: "bucketing"},
		{ID: "hoisting", New: newHoisting},
		{ID: "gnmt-quality", Untimed: true},
	},
}.Embedded(folder)
