package gpipe

import (
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// What a run takes from package plan, under the names that a program needs which opens a
// Pipeline. Package plan says what each is.
type (
	Input       = plan.Input
	Device      = plan.Device
	Kind        = plan.Kind
	Cut         = plan.Cut
	Replication = plan.Replication
	Numerics    = plan.Numerics
	Rate        = plan.Rate
	AllReduce   = plan.AllReduce
	Scope       = plan.Scope

	TableGradients = plan.TableGradients

	Plan        = plan.Plan
	Category    = plan.Category
	Traffic     = plan.Traffic
	Load        = plan.Load
	Description = plan.Description
	LayerInfo   = plan.LayerInfo

	OutOfMemoryError = plan.OutOfMemoryError
	MisfitError      = plan.MisfitError
)

const (
	Host, Emulated, Modelled = plan.Host, plan.Emulated, plan.Modelled

	Parameters, Gradients, OptimizerState        = plan.Parameters, plan.Gradients, plan.OptimizerState
	Boundary, Residuals, Workspace, Categories   = plan.Boundary, plan.Residuals, plan.Workspace, plan.Categories
	BoundaryActivations, BoundaryGradients       = plan.BoundaryActivations, plan.BoundaryGradients
	TiedGradients, SharedStatistics, Summands    = plan.TiedGradients, plan.SharedStatistics, plan.Summands
	Sums, UpdatedWeights, GatheredRows, PartRows = plan.Sums, plan.UpdatedWeights, plan.GatheredRows, plan.PartRows
	PartEdges, PartReduces, PartGathers          = plan.PartEdges, plan.PartReduces, plan.PartGathers
	PartTurns, PartSlices, Loads                 = plan.PartTurns, plan.PartSlices, plan.Loads

	ReduceTied, GatherTied, ReplicaScope, AllScope = plan.ReduceTied, plan.GatherTied, plan.ReplicaScope, plan.AllScope

	MaxThreads, MaxReplicas, MaxParts, MaxBlocks = plan.MaxThreads, plan.MaxReplicas, plan.MaxParts, plan.MaxBlocks
	MaxExamples, MaxTasks, MaxCells              = plan.MaxExamples, plan.MaxTasks, plan.MaxCells
)

// InputOf describes a batch, and others no larger than it.
func InputOf(b nn.Batch) Input { return plan.InputOf(b) }

// BatchOf returns the types of n examples: one example's types with a leading dimension added.
func BatchOf(types []graph.Type, n int) []graph.Type { return plan.BatchOf(types, n) }

// MicroBatchSizes splits n examples over m micro-batches; the first n mod m have one more.
func MicroBatchSizes(n, m int) []int { return plan.MicroBatchSizes(n, m) }

// DeviceOf is a modelled device of an accelerator's kind, with its memory as capacity and its
// link as it is reached.
func DeviceOf(a *accelerator.Accelerator) Device { return plan.DeviceOf(a) }

// ParseKind reads what Kind.String writes.
func ParseKind(s string) (Kind, error) { return plan.ParseKind(s) }

// ParseScope reads what Scope.String writes.
func ParseScope(s string) (Scope, error) { return plan.ParseScope(s) }

// ParseTableGradients reads what TableGradients.String writes.
func ParseTableGradients(s string) (TableGradients, error) { return plan.ParseTableGradients(s) }
