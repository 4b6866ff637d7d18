package train

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

func TestParseOptimizer(t *testing.T) {
	for text, want := range map[string]nn.Optimizer{
		"adam":                                 nn.Adam{},
		"lars":                                 nn.LARS{},
		"lars-unscaled":                        nn.LARS{Unscaled: true},
		"lars:eps=0":                           nn.LARS{},
		"lars-unscaled:momentum=0.929":         nn.LARS{Unscaled: true, Momentum: 0.929},
		"lars:trust=0.01:eps=1e-9:momentum=.5": nn.LARS{Trust: 0.01, Eps: 1e-9, Momentum: 0.5},
	} {
		testkit.Equal(t, testkit.Must(ParseOptimizer(text))(t), want, "%s", text)
	}
	for text, want := range map[string]string{
		"newton":           "want sgd, momentum,",
		"adam:beta1=0.5":   "adam has no settings",
		"lars:":            "want momentum=X, trust=X or eps=X",
		"lars:eps=1:eps=1": "each once",
		"lars:momentum=0":  "momentum is 0: want more than 0",
		"lars:momentum=1":  "Momentum is 1, want",
		"lars:luck=1":      `unknown setting "luck"`,
		"lars:eps=nan":     "Eps is NaN",
	} {
		testkit.Refused(ParseOptimizer(text))(t, want)
	}
}
