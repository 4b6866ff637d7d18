package experiments

import (
	"context"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe"
)

// TestEqualLayersAreTimedOnce: layers that compute the same have the same cost,
// whatever their names and random numbers; others have their own.
func TestEqualLayersAreTimedOnce(t *testing.T) {
	m := Model{Name: languageModel, Layers: 3, Dim: 8, FF: 16, Heads: 2, Vocab: 16, Seq: 8, Dropout: 0.1}
	p, in := uncut(t, m, 2)
	layers, of, err := distinctLayers(context.Background(), p, in, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 3 || of[1] != of[2] || of[2] != of[3] || of[0] == of[1] || of[3] == of[4] {
		t.Errorf("%d layers timed, %v: want the three in the middle to be one", len(layers), of)
	}
	costs, err := timeLayers(context.Background(), p, in)
	if err != nil {
		t.Fatal(err)
	}
	if len(costs) != 5 || costs[1] != costs[3] || costs[0] <= 0 {
		t.Errorf("costs %v", costs)
	}
	p, in = uncut(t, Model{Name: amoebaNet, Layers: 12, Filters: 8, Image: 32, Classes: 10}, 2)
	layers, of, err = distinctLayers(context.Background(), p, in, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) == 1 || len(layers) >= len(of) {
		t.Errorf("%d of %d layers timed: want the later normal cells of a stack as one", len(layers), len(of))
	}
}

func uncut(t *testing.T, m Model, examples int) (gpipe.Pipeline, gpipe.Input) {
	t.Helper()
	layers, err := m.Build()
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Loss(0)
	if err != nil {
		t.Fatal(err)
	}
	in := m.Input(examples)
	p, err := Setup{Partitions: 1, MicroBatches: 1}.uncut(layers, l, in)
	if err != nil {
		t.Fatal(err)
	}
	return p, in
}

// TestTooLargeIsRefusedAtOnce: what no machine holds is refused from shapes,
// before anything is compiled, measured or allocated.
func TestTooLargeIsRefusedAtOnce(t *testing.T) {
	deep := Model{Name: languageModel, Layers: 10_000, Dim: 1 << 16, FF: 256, Heads: 4, Vocab: 1024, Seq: 64}
	wide := Model{Name: languageModel, Layers: 6, Dim: 1 << 18, FF: 1 << 20, Heads: 4, Vocab: 1024, Seq: 64}
	for name, run := range map[string]func() error{
		"train": func() error {
			tr := Training{Model: deep, Data: "synthetic", Setup: Setup{Partitions: 8, MicroBatches: 1, Cost: Time}, Batch: 1, Steps: 1, Optimizer: "adam", LR: 0.1, LRSchedule: "constant"}
			_, err := tr.Run(context.Background(), nil)
			return err
		},
		"bench": func() error {
			_, err := Benching{Model: deep, Setup: Setup{Partitions: 2, MicroBatches: 1}, Batch: 1, Steps: 1}.Run(context.Background(), nil)
			return err
		},
		"describe": func() error {
			_, err := Describing{Model: wide, Setup: Setup{Partitions: 2, MicroBatches: 1, Cost: Time}, Batch: 1}.Run(context.Background())
			return err
		},
		"calibrate": func() error {
			_, err := Calibrating{Name: "host", Own: deep, Batch: 1, MicroBatches: 1, Optimizer: "adam"}.Run(context.Background(), Silent{})
			return err
		},
	} {
		start := time.Now()
		if err := run(); err == nil || !strings.Contains(err.Error(), "this machine has") {
			t.Errorf("%s: %v; want a word on this machine's memory", name, err)
		}
		if gone := time.Since(start); gone > 5*time.Second { // less than one without other tests beside
			t.Errorf("%s: refused after %v", name, gone)
		}
	}
}

// TestPlanRefusesAtOnce: parameters that all devices together do not hold.
func TestPlanRefusesAtOnce(t *testing.T) {
	start := time.Now()
	r, err := Planning{
		Simulating: Simulating{Model: Model{Name: languageModel, Layers: 10_000, Dim: 8192, FF: 256, Heads: 4, Vocab: 1024, Seq: 64}, Accelerator: "tpuv3", Optimizer: "adam", Batch: 32},
		Devices:    8, Keep: 1,
	}.Run(context.Background(), Silent{})
	if err != nil || len(r.Plans) > 0 || r.Nearest != nil || r.Params == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if gone := time.Since(start); gone > 5*time.Second {
		t.Errorf("refused after %v", gone)
	}
}
