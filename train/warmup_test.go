package train_test

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// A training that does not say otherwise warms up for a share of its steps, long ones for
// as long as ever.
func TestWarmUp(t *testing.T) {
	for steps, want := range map[int]int{0: 1, 1: 1, 4: 1, 20: 5, 799: 199, 800: 200, 1500: 200, 1 << 30: 200} {
		testkit.Equal(t, train.WarmUp(steps), want, "of %d steps", steps)
	}
	tr := traintest.TinyTraining()
	tr.Steps, tr.LRSchedule = 12, ""
	var rates []float64
	testkit.Must(tr.Run(t.Context(), func(s train.TrainStep) { rates = append(rates, s.LR) }))(t)
	for i := 1; i < len(rates); i++ {
		testkit.Equal(t, rates[i] > rates[i-1], i < 3, "the rates of 12 steps are %v: want them to rise for 3", rates)
	}
	tr.Model.Name, tr.Data, tr.Batch, tr.Steps, tr.Epochs, rates = train.Llama, "text:warmup_test.go", 32, 0, 2, nil
	testkit.Must(tr.Run(t.Context(), func(s train.TrainStep) { rates = append(rates, s.LR) }))(t)
	testkit.Equal(t, rates[len(rates)-1], 0, "the rates of two epochs are %v: want a cosine that ends with them, the last", rates)
}
