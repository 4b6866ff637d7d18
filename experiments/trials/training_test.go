package trials

import (
	"errors"
	"strings"
	"testing"

	"gpipebench/experiments/workload"
	"gpipebench/experiments/workload/workloadtest"
	"gpipebench/gpipe"
)

// Every way to train refuses, before the first step, a last mini-batch that
// leaves batch norm a single value.
func TestShortLastMiniBatch(t *testing.T) {
	training := workloadtest.TinyImages()
	training.Config.SyntheticImages.Train = 9
	_, trial := Train(t.Context(), training)
	_, run := training.Run(t.Context(), func(workload.TrainStep) { t.Error("a step has been made") })
	for _, err := range []error{trial, run} {
		var misfit *gpipe.MisfitError
		if !errors.As(err, &misfit) || !strings.Contains(err.Error(), "the last mini-batch of an epoch, of 1 examples") {
			t.Errorf("%v: want the last mini-batch refused", err)
		}
	}
	training.Config.SyntheticImages.Train = 8
	if _, err := Train(t.Context(), training); err != nil {
		t.Error(err)
	}
}
