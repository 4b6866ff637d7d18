package mlperf

import (
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/simulate"
	"gpipebench/train"
)

// pod is what all steps of a spec have in common: each core is a replica with the whole
// network, its examples are one micro-batch, and nothing is recomputed.
type pod struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	AllReduce   string `yaml:"all_reduce" want:"all-reduce"`
}

// torus is one of cores.
type torus struct {
	X int `yaml:"x" want:"1..256"`
	Y int `yaml:"y" want:"1..256"`
}

func (t torus) cores() int { return t.X * t.Y }

// alone is a core by itself.
var alone = torus{1, 1}

// step is a step of a network on a torus, with examples in all.
func (p pod) step(m train.Model, optimizer string, on torus, examples int, scope string, shard bool) simulate.Simulating {
	return simulate.Simulating{
		Model: m, Accelerator: p.Accelerator, Batch: examples, Optimizer: optimizer, DType: lab.Named(train.ParseDType, p.DType),
		AllReduce: lab.Named(reduction.ParseKind, p.AllReduce), Torus: [2]int{on.X, on.Y}, Accounting: gpipe.FullAccounting,
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: on.cores(), BNScope: lab.Named(gpipe.ParseScope, scope), ShardUpdate: shard,
			Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		},
	}
}

// checkTorus refuses a torus of one core, and one that has no more than the one before (zero:
// there is none).
func checkTorus(t, before torus) error {
	switch {
	case t.cores() < 2:
		return errors.New("want two cores or more")
	case t.cores() <= before.cores():
		return errors.New("want more cores than the one before")
	}
	return nil
}

// checkScope refuses statistics of batch norm over a part of the ranks that does not divide them.
func checkScope(name string, ranks int, what string) error {
	if scope := lab.Named(gpipe.ParseScope, name); scope > 1 && ranks%int(scope) != 0 {
		return fmt.Errorf("batch norm over %v of %s: want a number that divides them", scope, what)
	}
	return nil
}
