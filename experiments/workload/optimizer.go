package workload

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/nn"
)

// The optimisers by name. Momentum is 0.9 where there is one; Adam's settings are its
// paper's; AdamW decays weights by 0.01; RMSProp's settings are those of AmoebaNet's
// training.
var optimizers = []struct {
	name string
	nn.Optimizer
}{
	{"sgd", nn.SGD{}},
	{"momentum", nn.SGD{Momentum: 0.9}},
	{"nesterov", nn.SGD{Momentum: 0.9, Nesterov: true}},
	{"adam", nn.Adam{}},
	{"adamw", nn.Adam{WeightDecay: 0.01}},
	{"rmsprop", nn.RMSProp{}},
}

// Optimizers lists the names that ParseOptimizer reads.
func Optimizers() []string {
	var names []string
	for _, o := range optimizers {
		names = append(names, o.name)
	}
	return names
}

// ParseOptimizer returns the optimiser of a name.
func ParseOptimizer(name string) (nn.Optimizer, error) {
	names := Optimizers()
	if i := slices.Index(names, name); i >= 0 {
		return optimizers[i].Optimizer, nil
	}
	return nil, fmt.Errorf("unknown optimizer %q: want %s", name, strings.Join(names, ", "))
}
