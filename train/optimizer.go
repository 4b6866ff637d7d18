package train

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/nn"
)

// The optimisers by name. Momentum is 0.9 where there is one; Adam's settings are its
// paper's; AdamW decays weights by 0.01; RMSProp's settings are as in AmoebaNet's
// training, LARS' as in MLPerf's ResNet-50; L2 is its weight decay.
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
	{"lars", nn.LARS{}},
	{"lars-unscaled", nn.LARS{Unscaled: true}},
}

// OptimizerForms describes what ParseOptimizer reads, for messages and help.
var OptimizerForms = strings.Join(Optimizers(), ", ") + "; after either lars also :momentum=X, :trust=X and :eps=X"

// Optimizers lists the names that ParseOptimizer reads.
func Optimizers() []string {
	var names []string
	for _, o := range optimizers {
		names = append(names, o.name)
	}
	return names
}

// ParseOptimizer returns the optimiser of a name. Settings may follow that of LARS, such
// as lars-unscaled:momentum=0.929.
func ParseOptimizer(text string) (nn.Optimizer, error) {
	name, settings, has := strings.Cut(text, ":")
	i := slices.Index(Optimizers(), name)
	if i < 0 {
		return nil, fmt.Errorf("unknown optimizer %q: want %s", name, OptimizerForms)
	}
	o := optimizers[i].Optimizer
	if !has {
		return o, nil
	}
	lars, ok := o.(nn.LARS)
	if !ok {
		return nil, fmt.Errorf("optimizer %q: %s has no settings; want %s", text, name, OptimizerForms)
	}
	set := map[string]bool{}
	for setting := range strings.SplitSeq(settings, ":") {
		key, value, _ := strings.Cut(setting, "=")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || set[key] {
			return nil, fmt.Errorf("optimizer %q: setting %q: want momentum=X, trust=X or eps=X, each once, with numbers", text, setting)
		}
		set[key] = true
		switch {
		case !(x > 0) && key != "eps":
			return nil, fmt.Errorf("optimizer %q: %s is %v: want more than 0", text, key, x)
		case key == "momentum":
			lars.Momentum = float32(x)
		case key == "trust":
			lars.Trust = x
		case key == "eps":
			lars.Eps = x
		default:
			return nil, fmt.Errorf("optimizer %q: unknown setting %q: want momentum, trust or eps", text, key)
		}
	}
	if err := lars.Validate(); err != nil {
		return nil, fmt.Errorf("optimizer %q: %w", text, err)
	}
	return lars, nil
}
