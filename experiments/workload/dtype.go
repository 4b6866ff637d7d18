package workload

import (
	"fmt"

	"gpipebench/nn/graph"
)

// ParseDType reads the dtype of a simulation's activations.
func ParseDType(s string) (graph.DType, error) {
	switch s {
	case "bf16":
		return graph.BF16, nil
	case "f32":
		return graph.F32, nil
	}
	return 0, fmt.Errorf("unknown dtype %q: want bf16 or f32", s)
}
