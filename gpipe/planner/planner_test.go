package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// small is a search over a chain of layers of the given widths.
func small(t *testing.T, memory int64, widths ...int) Search {
	t.Helper()
	a, err := accelerator.Named("p100")
	if err != nil {
		t.Fatal(err)
	}
	a.Memory = memory
	var layers []nn.Layer
	for i := range widths[1:] {
		layers = append(layers, nn.NewDense(fmt.Sprint("dense", i), nn.DenseConfig{In: widths[i], Out: widths[i+1]}))
	}
	return Search{
		Pipeline: gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Optimizer: nn.Adam{}, Devices: []gpipe.Device{gpipe.DeviceOf(a)}},
		Input:    gpipe.Input{Examples: 8, Inputs: []graph.Type{{Shape: graph.Shape{widths[0]}}}, Targets: []graph.Type{{DType: graph.I32}}},
		Devices:  4, MaxBatch: 16, Keep: 3,
	}
}

// Every plan is what the pipeline simulates, the best first, and within the devices'
// memory.
func TestPlansAreSimulated(t *testing.T) {
	s := small(t, 1<<30, 64, 256, 256, 256, 10)
	looked := 0
	s.Looked = func(_, _, _, so, _ int) { looked = so }
	plan, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Plans) != s.Keep || plan.Nearest != nil || plan.Simulated == 0 || looked == 0 {
		t.Fatalf("%+v, looked at %d", plan, looked)
	}
	for i, c := range plan.Plans {
		p := s.Pipeline
		p.Partitions, p.MicroBatches, p.Balance = c.K, c.M, c.Partition
		if p.Checkpoint, err = schedule.ParseCheckpoint(c.Checkpoint); err != nil {
			t.Fatal(err)
		}
		sim, err := p.Simulate(s.input(c.Batch), s.How)
		if err != nil {
			t.Fatal(err)
		}
		if sim.Seconds != c.StepSeconds || i > 0 && c.ExamplesPerSecond > plan.Plans[i-1].ExamplesPerSecond {
			t.Errorf("plan %d: %+v, simulated in %v s", i, c, sim.Seconds)
		}
	}
}

// Of a network that does not fit, the nearest plan is returned; of one whose
// parameters do not fit, none.
func TestNothingFits(t *testing.T) {
	const params = 64*256 + 256 + 256*10 + 10
	s := small(t, 12*params/2+16<<10, 64, 256, 10)
	s.Devices, s.Input.Examples, s.MaxBatch = 2, 4096, 4096
	plan, err := s.Run(t.Context())
	if err != nil || len(plan.Plans) > 0 || plan.Nearest == nil || plan.Nearest.LacksBytes <= 0 {
		t.Errorf("activations that do not fit: %+v, %v", plan, err)
	}
	s = small(t, 1<<10, 64, 256, 10)
	if plan, err := s.Run(t.Context()); err != nil || len(plan.Plans) > 0 || plan.Nearest != nil || plan.Params != params {
		t.Errorf("parameters that do not fit: %+v, %v", plan, err)
	}
	for want, change := range map[string]func(s *Search){
		"a search on 0 devices that are described: want one that is modelled and stands for all": func(s *Search) { s.Pipeline.Devices = nil },
		"a search on 1 devices that are described: want one that is modelled and stands for all": func(s *Search) { s.Pipeline.Devices = []gpipe.Device{{}} },
		"at most 0 devices: want 1 or more":                                func(s *Search) { s.Devices = 0 },
		"a largest mini-batch of 4 examples: want 8 or more, the smallest": func(s *Search) { s.MaxBatch = 4 },
		"no loss":                            func(s *Search) { s.Pipeline.Loss = nil },
		"a mini-batch of 0 examples: want 1": func(s *Search) { s.Input.Examples = 0 },
	} {
		s := small(t, 1<<30, 64, 10)
		change(&s)
		if _, err := s.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := small(t, 1<<30, 64, 10).Run(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
