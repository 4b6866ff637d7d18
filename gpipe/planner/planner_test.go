package planner

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// small is a search over a chain of layers of the given widths.
func small(t *testing.T, memory int64, widths ...int) Search {
	t.Helper()
	a := testkit.Must(accelerator.Named("p100"))(t)
	a.Memory = memory
	var layers []nn.Layer
	for i := range widths[1:] {
		layers = append(layers, nn.NewDense(fmt.Sprint("dense", i), nn.DenseConfig{In: widths[i], Out: widths[i+1]}))
	}
	return Search{
		Pipeline: gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Numerics: gpipe.Numerics{Optimizer: nn.Adam{}}, Devices: []gpipe.Device{gpipe.DeviceOf(a)}},
		Input:    gpipe.Input{Examples: 8, Inputs: []graph.Type{{Shape: graph.Shape{widths[0]}}}, Targets: []graph.Type{{DType: graph.I32}}},
		Devices:  4, MaxBatch: 16, Keep: 3,
	}
}

// simulated is what the pipeline simulates of a plan, whose step it must be.
func simulated(t *testing.T, s Search, c Candidate) *gpipe.Simulation {
	t.Helper()
	p := s.Pipeline
	p.Partitions, p.MicroBatches, p.Balance, p.Replicas, p.Chunks = c.K, c.M, c.Partition, c.R, c.Chunks
	p.Checkpoint = testkit.Must(schedule.ParseCheckpoint(c.Checkpoint))(t)
	p.Window = c.Window
	if c.Lists != nil {
		p.Tasks = func(int, int) [][]schedule.Task { return c.Lists }
	} else {
		p.Schedule = testkit.Must(schedule.Parse(c.Schedule))(t)
	}
	if p.AllReduce.Kind == reduction.Torus {
		p.AllReduce.Torus = map[int][2]int{1: {1, 1}, 2: {2, 1}, 3: {3, 1}, 4: {2, 2}}[c.R]
	}
	sim := testkit.Must(p.Simulate(s.input(c.Batch), s.How))(t)
	testkit.Equal(t, sim.Seconds/float64(max(sim.Window, 1)), c.StepSeconds, "%+v, simulated in %v s", c, sim.Seconds)
	testkit.Equal(t, sim.Parts.Bubble/sim.Seconds, c.BubbleFraction, "%+v, simulated with a bubble", c)
	return sim
}

// Every plan is what the pipeline simulates, the best first, and within the devices and
// their memory.
func TestPlansAreSimulated(t *testing.T) {
	for i, replicas := range []int{0, 1, 3, 1, 1, 1} {
		s := small(t, 1<<30, 64, 256, 256, 256, 10)
		s.Replicas = replicas
		switch i {
		case 3:
			s.Pipeline.Schedule = schedule.ZBH1
		case 4:
			s.Schedules, s.Window = everySchedule(t), 3
		case 5:
			s.Schedules = []schedule.Schedule{schedule.Interleaved}
		}
		s.Pipeline.AllReduce = gpipe.AllReduce{Kind: reduction.Torus, Link: clock.Link{Bandwidth: 1e9}}
		looked := 0
		s.Looked = func(_ Way, so, _ int) { looked = so }
		plan := testkit.Must(s.Run(t.Context()))(t)
		if len(plan.Plans) != s.Keep || plan.Nearest != nil || plan.Simulated == 0 || looked == 0 {
			t.Fatalf("%+v, looked at %d", plan, looked)
		}
		for i, c := range plan.Plans {
			if sim := simulated(t, s, c); sim.ReduceSeconds != c.ReduceSeconds || i > 0 && c.ExamplesPerSecond > plan.Plans[i-1].ExamplesPerSecond {
				t.Errorf("plan %d: %+v, with an all-reduce of %v s", i, c, sim.ReduceSeconds)
			}
			if c.R*c.K > s.Devices || replicas > 0 && c.R != replicas {
				t.Errorf("plan %d has %d x %d devices, want %d at most and %d replicas", i, c.R, c.K, s.Devices, replicas)
			}
		}
	}
}

// The closed bound is no lower than that of the replay, for every schedule, and almost the
// same for one stage. No cut has a share of R where there is none.
func TestClosedBounds(t *testing.T) {
	for _, sched := range everySchedule(t) {
		s := small(t, 1<<30, 64, 256, 128, 256, 64, 128, 64, 256, 10)
		s.Pipeline.Schedule = sched
		if sched.Asynchronous() {
			s.Window = 3
		}
		s.Pipeline.AllReduce = gpipe.AllReduce{Link: clock.Link{Bandwidth: 1e9}}
		testkit.NoError(t, s.complete())
		described := testkit.Must(s.Pipeline.Counted(s.Input))(t)
		search := s.of(described)
		cuts, _, err := search.cuts(t.Context())
		testkit.NoError(t, err)
		stages := 0
		for _, c := range cuts {
			stages = max(stages, c.K)
			closed := c.bounds
			testkit.NoError(t, search.replay(&c))
			for mode, bound := range c.bounds {
				if closed[mode] < bound || c.K == 1 && sched != schedule.DualPipeV && closed[mode] > bound*(1+1e-8) || mode.Checkpoint == schedule.Never && c.costs()[1] != c.layers[1].Forward+c.layers[1].Backward {
					t.Errorf("%v, %v, %+v: the closed bound is %v examples/s, that of the replay %v", sched, mode, c.Way, closed[mode], bound)
				}
			}
		}
		testkit.Equal(t, stages, 4, "%v: up to", sched)
	}
}

// everySchedule has those of all names.
func everySchedule(t *testing.T) (all []schedule.Schedule) {
	t.Helper()
	for _, name := range slices.Concat(schedule.Names(), schedule.AsynchronousNames()) {
		s := testkit.Must(schedule.Parse(name))(t)
		all = append(all, s)
	}
	return all
}

// No bound leaves out a way that is among the best: the plans are the first of those that a
// search finds that keeps all and so simulates all, in the same order, whatever the order in
// which schedules are tried; with little memory too, with updates and links, and where the host
// that starts operations limits them.
func TestSearchIsExhaustive(t *testing.T) {
	for i, memory := range []int64{1 << 30, 700 << 10, 1 << 30} {
		s := small(t, memory, 64, 128, 256, 128, 192, 128, 64, 256, 10)
		if i == 2 {
			s.Pipeline.Devices = []gpipe.Device{gpipe.DeviceOf(testkit.Must(accelerator.Named("a100-80g"))(t))}
		}
		s.Schedules, s.Window, s.Input.Examples, s.MaxBatch, s.Keep = everySchedule(t), 3, 16, 16, 1<<20
		all := testkit.Must(s.Run(t.Context()))(t)
		if len(all.Plans) == 0 || all.Dismissed > 0 {
			t.Fatalf("%d bytes: %d plans, %d dismissed", memory, len(all.Plans), all.Dismissed)
		}
		testkit.Equal(t, slices.ContainsFunc(all.Plans, func(c Candidate) bool { return c.PartitionBy != "time" }), memory < 1<<30, "%d bytes", memory)
		for _, keep := range []int{1, 5} {
			s.Keep = keep
			slices.Reverse(s.Schedules)
			few := testkit.Must(s.Run(t.Context()))(t)
			testkit.EqualDeep(t, few.Plans, all.Plans[:min(keep, len(all.Plans))], "%d bytes, the best %d", memory, keep)
			if keep == 1 && memory == 1<<30 && few.Dismissed == 0 {
				t.Error("no way is dismissed")
			}
		}
	}
}

// images is a search over convolutions in two parts, each with an accelerator.
func images(t *testing.T) Search {
	t.Helper()
	s := small(t, 1<<30, 64, 10)
	channels := []int{3, 16, 8, 24, 4}
	s.Pipeline.Layers = nil
	for i := range channels[1:] {
		s.Pipeline.Layers = append(s.Pipeline.Layers, nn.NewConv2D(fmt.Sprint("conv", i), nn.Conv2DConfig{In: channels[i], Out: channels[i+1], Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Padding: nn.Same}))
	}
	s.Pipeline.Layers = append(s.Pipeline.Layers, nn.NewGlobalAvgPool("pool"))
	s.Input.Inputs = []graph.Type{{Shape: graph.Shape{32, 32, 3}}}
	s.Pipeline.Spatial, s.Devices = 2, 8
	return s
}

// Plans of stages in parts are what the pipeline simulates, as good as an exhaustive search's,
// and within the devices; each stage has as many as there are parts.
func TestPlansOfParts(t *testing.T) {
	s := images(t)
	s.Keep = 1 << 20
	all := testkit.Must(s.Run(t.Context()))(t)
	most := 0
	for _, c := range all.Plans {
		most = max(most, c.R*c.K)
		simulated(t, s, c)
	}
	testkit.Equal(t, most, 4, "up to")
	for _, keep := range []int{1, 5} {
		s.Keep = keep
		few := testkit.Must(s.Run(t.Context()))(t)
		testkit.EqualDeep(t, few.Plans, all.Plans[:keep], "the best %d", keep)
	}
	for want, change := range map[string]func(s *Search){
		"at most 1 devices: want 2 or more":                                      func(s *Search) { s.Devices = 1 },
		"2 parts of images with schedules [zb-h1]: want some without W, or 1":    func(s *Search) { s.Schedules = []schedule.Schedule{schedule.ZBH1} },
		"2 parts of images with schedules [searched]: want some without W, or 1": func(s *Search) { s.Searched = true },
		"5 replicas on at most 4 devices: want at most one a device":             func(s *Search) { s.Replicas = 5 },
		"2 parts of images, and no input has images: want 1":                     func(s *Search) { *s = small(t, 1<<30, 64, 10); s.Pipeline.Spatial = 2 },
	} {
		s := images(t)
		change(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A searched schedule is what the pipeline simulates with its lists, fits, and with enough
// memory is no slower than those by name with one piece a device and B in two, from which it is searched.
func TestSearchedPlans(t *testing.T) {
	for _, memory := range []int64{1 << 30, 700 << 10} {
		s := small(t, memory, 64, 128, 256, 128, 192, 128, 64, 256, 10)
		s.Schedules, s.Input.Examples, s.MaxBatch, s.Keep = []schedule.Schedule{schedule.ZBH1, schedule.ZBH2}, 16, 16, 1<<20
		s.Searched, s.Seed, s.Replicas = true, 1, 1
		s.Pipeline.Devices[0].Link = clock.Link{} // a link through the host also takes a device's time, which a search does not know
		plan := testkit.Must(s.Run(t.Context()))(t)
		searched, first := 0, map[[2]int]float64{} // the best throughput, by K and M
		for _, c := range plan.Plans {
			if c.Schedule != "searched" {
				if c.Checkpoint == "never" && c.PartitionBy == "time" {
					first[[2]int{c.K, c.M}] = max(first[[2]int{c.K, c.M}], c.ExamplesPerSecond)
				}
				continue
			}
			searched++
			if simulated(t, s, c); c.PeakBytes > memory || c.Chunks != 1 {
				t.Errorf("%+v with %d bytes", c, memory)
			}
		}
		if searched == 0 {
			t.Errorf("%d bytes: no searched schedule", memory)
		}
		for _, c := range plan.Plans {
			if by := first[[2]int{c.K, c.M}]; c.Schedule == "searched" && memory == 1<<30 && c.ExamplesPerSecond < by*0.99 {
				t.Errorf("K = %d, M = %d: searched %v examples/s, by name %v", c.K, c.M, c.ExamplesPerSecond, by)
			}
		}
		again, err := s.Run(t.Context())
		if err != nil || !reflect.DeepEqual(plan, again) {
			t.Errorf("%d bytes: another search, another outcome, %v", memory, err)
		}
	}
}

// What a search may not have is named, with what it may.
func TestSearchRefused(t *testing.T) {
	for want, change := range map[string]func(s *Search){
		"5 replicas on at most 4 devices: want at most one a device":    func(s *Search) { s.Replicas = 5 },
		"-1 replicas on at most 4 devices":                              func(s *Search) { s.Replicas = -1 },
		"9 replicas for a mini-batch of 8: want at most one an example": func(s *Search) { s.Replicas, s.Devices = 9, 9 },
		"chunks [0]: want 1 or more":                                    func(s *Search) { s.Chunks = []int{0} },
		"schedules [Schedule(99)]: want":                                func(s *Search) { s.Schedules = []schedule.Schedule{99} },
		"a torus of 3 x 1 for 2 replicas: want as many": func(s *Search) {
			s.Replicas = 2
			s.Pipeline.AllReduce = gpipe.AllReduce{Kind: reduction.Torus, Torus: [2]int{3, 1}}
		},
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
	s := small(t, 1<<30, 64, 10)
	s.Pipeline.AllReduce = gpipe.AllReduce{Kind: reduction.Torus, Torus: [2]int{2, 2}}
	testkit.Equal(t, testkit.Must(s.Run(t.Context()))(t).Plans[0].R, 4, "a torus of 2 x 2")
	s.How.Zero = 3 // with which all ways are on a cluster
	simulated(t, s, testkit.Must(s.Run(t.Context()))(t).Plans[0])
}

// Of a network that does not fit, the nearest plan is returned; of one whose
// parameters do not fit, none.
func TestNothingFits(t *testing.T) {
	const params = 64*256 + 256 + 256*10 + 10
	s := small(t, 12*params/2+16<<10, 64, 256, 10)
	s.Devices, s.Input.Examples, s.MaxBatch = 2, 512, 512
	if plan := testkit.Must(s.Run(t.Context()))(t); len(plan.Plans) > 0 || plan.Nearest == nil || plan.Nearest.LacksBytes <= 0 {
		t.Errorf("activations that do not fit: %+v", plan)
	}
	s = small(t, 1<<10, 64, 256, 10)
	if plan := testkit.Must(s.Run(t.Context()))(t); len(plan.Plans) > 0 || plan.Nearest != nil || plan.Params != params {
		t.Errorf("parameters that do not fit: %+v", plan)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := small(t, 1<<30, 64, 10).Run(cancelled)
	testkit.Is(t, err, context.Canceled)
}
