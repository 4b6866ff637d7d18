package gpipe

import (
	"context"
	"slices"
	"sync"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// counting counts what is handed to the ends of a transport, by line.
type counting struct {
	mu    sync.Mutex
	lines map[transport.Route]Traffic
}

// countingEnd is one process's end.
type countingEnd struct {
	transport.Transport
	to *counting
}

func (e *countingEnd) Begin() transport.Session { return countingSession{e.Transport.Begin(), e.to} }

type countingSession struct {
	transport.Session
	to *counting
}

func (s countingSession) Send(ctx context.Context, to transport.Route, tensors [][]float32) error {
	if err := s.Session.Send(ctx, to, tensors); err != nil {
		return err
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	t := s.to.lines[to.Line()]
	t.Messages, t.Bytes = t.Messages+1, t.Bytes+bytesOf(tensors)
	s.to.lines[to.Line()] = t
	return nil
}

// payloads carry the loads that leave a stage.
var payloads = map[Load]transport.Payload{
	BoundaryActivations: transport.Activation, BoundaryGradients: transport.Gradient, TiedGradients: transport.TiedGradient,
	SharedStatistics: transport.Statistics, GatheredRows: transport.GatheredRows,
	Summands: transport.GroupGradient, Sums: transport.GroupGradient, UpdatedWeights: transport.GroupGradient,
}

// A step's traffic is what its plan says, to the byte, and what was handed to the
// transport; also of short mini-batches, and in several processes.
func TestTraffic(t *testing.T) {
	testkit.NotRaced(t)
	language := func(k, r, g int, shard bool) func() Pipeline {
		return func() Pipeline {
			p := small.pipeline(t)
			p.Partitions, p.Replicas, p.Groups, p.ShardUpdate, p.MicroBatches = k, r, g, shard, 2
			return p
		}
	}
	gathered := func(k, r, g int) func() Pipeline {
		return func() Pipeline {
			p := language(k, r, g, false)()
			p.TiedGradients = GatherTied
			return p
		}
	}
	chunks := func(how TableGradients) func() Pipeline {
		return func() Pipeline {
			p := interleaved(smallTranslation.pipeline(t), 2, 2, 4)
			p.Replicas, p.TiedGradients = 2, how
			return p
		}
	}
	wide := func(c schedule.Checkpoint) func() Pipeline {
		return func() Pipeline {
			p := wideResNet(t, 2)
			p.Partitions, p.Checkpoint = 2, c
			return p
		}
	}
	divided := func() Pipeline {
		p := smallResNet.pipeline(t, false)
		p.Partitions, p.MicroBatches, p.Spatial, p.Schedule, p.Chunks = 2, 2, 3, schedule.Interleaved, 2
		return p
	}
	operations := func(parts, blocks int) func() Pipeline {
		return func() Pipeline {
			p := uneven.layerWise(t, nn.LARS{Unscaled: true, Trust: 0.1})
			p.Tensor, p.Blocks, p.Partitions, p.MicroBatches, p.Replicas = parts, blocks, 2, 2, 2
			return p
		}
	}
	channels := func(parts, blocks int) func() Pipeline {
		return func() Pipeline {
			p := unevenSmallResNet.layerWise(t, false)
			p.Tensor, p.Blocks, p.Partitions, p.MicroBatches = parts, blocks, 2, 2
			return p
		}
	}
	images := func(i int) nn.Batch { return smallResNet.data(i % 3) }
	// Whose replicas own more chunks than a message has.
	const width = 900
	large := func() Pipeline {
		return Pipeline{Layers: []nn.Layer{nn.NewDense("wide", nn.DenseConfig{In: width, Out: width})}, Loss: nn.CrossEntropy{}, Replication: Replication{Replicas: 2}, MicroBatches: 1}
	}
	vectors := func(int) nn.Batch {
		return nn.Batch{
			Inputs:  []nn.Tensor{{Shape: []int{2, width}, F32: make([]float32, 2*width)}},
			Targets: []nn.Tensor{{Shape: []int{2}, I32: make([]int32, 2)}},
			Count:   2,
		}
	}
	for _, c := range []struct {
		name     string
		pipeline func() Pipeline
		data     func(i int) nn.Batch
		owner    func(place.Place) int
		loads    []Load // that there must be
	}{
		{"one stage", language(1, 1, 1, false), small.data, nil, nil},
		{"stages", language(3, 1, 1, false), small.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients}},
		{"groups", language(3, 1, 4, false), small.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients}},
		{"replicas", language(2, 2, 4, false), small.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, Summands, Sums}},
		{"divided updates", language(1, 4, 4, true), small.data, nil, []Load{Summands, UpdatedWeights}},
		{"gathered", gathered(1, 4, 4), small.data, nil, []Load{GatheredRows, Summands, Sums}},
		{"gathered over stages and groups", gathered(3, 2, 4), small.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, GatheredRows, Summands, Sums}},
		{"gathered in processes", gathered(2, 2, 2), small.data, func(p place.Place) int { return p.Replica }, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, GatheredRows, Summands, Sums}},
		{"chunks", chunks(ReduceTied), smallTranslation.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, Summands, Sums}},
		{"chunks, gathered", chunks(GatherTied), smallTranslation.data, nil, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, GatheredRows, Summands, Sums}},
		{"images in parts", divided, images, nil, []Load{BoundaryActivations, BoundaryGradients, PartRows}},
		{"operations in parts", operations(3, 1), uneven.data, nil, []Load{BoundaryActivations, BoundaryGradients, Summands, Sums, PartEdges, PartReduces, PartGathers, PartTurns, PartSlices}},
		{"operations in blocks", operations(4, 4), uneven.data, nil, []Load{BoundaryActivations, BoundaryGradients, Summands, Sums, PartEdges, PartReduces, PartGathers}},
		{"channels in parts", channels(3, 1), unevenSmallResNet.data, nil, []Load{BoundaryActivations, BoundaryGradients, PartEdges, PartGathers, PartTurns, PartSlices}},
		{"channels in blocks", channels(4, 4), unevenSmallResNet.data, nil, []Load{BoundaryActivations, BoundaryGradients, PartEdges, PartReduces, PartGathers}},
		{"several messages", large, vectors, nil, []Load{Summands, Sums}},
		{"processes", language(2, 2, 2, true), small.data, func(p place.Place) int { return p.Stage }, []Load{BoundaryActivations, BoundaryGradients, TiedGradients, Summands, UpdatedWeights}},
		{"batch norm over replicas", wide(schedule.Always), images, nil, []Load{BoundaryActivations, BoundaryGradients, SharedStatistics, Summands, Sums}},
		{"the same, all kept", wide(schedule.Never), images, func(p place.Place) int { return p.Replica }, []Load{BoundaryActivations, BoundaryGradients, SharedStatistics, Summands, Sums}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ranks := 2
			if c.owner == nil {
				ranks, c.owner = 1, func(place.Place) int { return 0 }
			}
			ps := &processes{}
			count := &counting{lines: map[transport.Route]Traffic{}}
			for _, end := range transport.Ends(ranks, c.owner) {
				p := c.pipeline()
				p.Transport = &countingEnd{end, count}
				ps.trainers = append(ps.trainers, openedForAll(t, p, InputOf(c.data(0))))
			}
			for i := range 3 {
				clear(count.lines)
				ps.all(func(rank int, tr *Trainer) {
					r, err := tr.Step(t.Context(), c.data(i))
					if err != nil {
						t.Error(err)
						return
					}
					checkTraffic(t, r, c.loads)
					if rank > 0 {
						return
					}
					sent := map[transport.Route]Traffic{}
					for _, of := range r.Traffic {
						if of.From == of.To { // parts', which never leave a stage
							continue
						}
						line := transport.Route{From: of.From, To: of.To, What: payloads[of.What]}
						all := sent[line]
						all.Messages, all.Bytes = all.Messages+of.Messages, all.Bytes+of.Bytes
						sent[line] = all
					}
					count.mu.Lock()
					defer count.mu.Unlock()
					for line, want := range count.lines {
						testkit.Equal(t, sent[line], want, "step %d, %v", i, line)
					}
					testkit.Equal(t, len(sent), len(count.lines), "step %d", i)
				})
			}
			p := c.pipeline() // whose replicas read each other's gradients in place
			tr := openedForAll(t, p, InputOf(c.data(0)))
			r := stepped(t, tr, c.data(0))
			checkTraffic(t, r, c.loads)
			testkit.EqualAll(t, must(p.PlannedTraffic(InputOf(c.data(0))))(t), r.PlannedTraffic(), "before it runs")
			ps.all(func(_ int, tr *Trainer) {
				if r, err := tr.Evaluate(t.Context(), c.data(3)); err != nil || r.PlannedTraffic() != nil {
					t.Errorf("%v, an evaluation's plan %v", err, r.PlannedTraffic())
				}
			})
		})
	}
}

// checkTraffic holds a step's traffic against its plan.
func checkTraffic(t *testing.T, r *Result, loads []Load) {
	t.Helper()
	got := slices.Clone(r.Traffic)
	plan.SortTraffic(got)
	there := map[Load]bool{}
	for i := range got {
		if got[i].Seconds < 0 || got[i].Seconds > 60 {
			t.Errorf("%+v", got[i])
		}
		got[i].Seconds = 0
		there[got[i].What] = true
	}
	testkit.EqualAll(t, got, r.PlannedTraffic(), "traffic")
	for _, l := range loads {
		if !there[l] {
			t.Errorf("no %v", l)
		}
	}
	testkit.Equal(t, len(there), len(loads), "kinds")
}
