package train

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Setup is how a network is run: what must not change a bit of the result, and Groups, Blocks,
// BNScope and DType, which do, as asynchronous schedules do (see deciding).
type Setup struct {
	Partitions    int // K
	MicroBatches  int // M, of each group
	Replicas      int // R; 0: one
	Groups        int // G; 0: one for each replica
	Spatial       int `json:",omitzero"` // S, parts over which stages divide images by their rows; 0: one
	Tensor        int `json:",omitzero"` // T, parts that divide each stage's operations; 0: one
	Blocks        int `json:",omitzero"` // B, blocks of each divided axis, which decide bits; 0: one
	ShardUpdate   bool
	TiedGradients gpipe.TableGradients `json:",omitzero"` // of tables that embeddings share with a softmax
	BNScope       gpipe.Scope          // of batch norm's statistics
	DType         graph.DType          `json:"dtype"` // of activations and their gradients
	Schedule      schedule.Schedule
	Window        int    `json:",omitzero"` // mini-batches between two drains, of asynchronous schedules, whose bits it decides; 0 with others
	Chunks        int    `json:",omitzero"` // V, pieces of the network on each device; 0: as many as the schedule has
	ScheduleFile  string `json:",omitzero"` // a file that has the schedule, in place of Schedule
	Checkpoint    schedule.Checkpoint
	LateRecompute bool

	Balance     []int // layers of each partition, or of each piece of the network; nil: Partitioner decides by Cost
	Partitioner partition.Partitioner
	Cost        Cost

	Device    gpipe.Kind
	Threads   int        // of each device
	MemoryCap int64      // bytes of each device; 0: no limit
	Link      clock.Link // of emulated devices
}

// Cost is what partitioners balance.
type Cost uint8

const (
	FLOPs  Cost = iota // derived from the layers' shapes
	Time               // each layer's forward, recomputation and backward measured by itself on this machine
	Memory             // parameters with gradients and optimiser, and what is saved for the backward
)

var costs = [...]string{"flops", "time", "memory"}

func (c Cost) String() string { return costs[c] }

// ParseCost reads what String writes.
func ParseCost(s string) (Cost, error) {
	if i := slices.Index(costs[:], s); i >= 0 {
		return Cost(i), nil
	}
	return 0, fmt.Errorf("unknown cost %q: want %s", s, strings.Join(costs[:], ", "))
}

// Pipeline returns the pipeline of a network with this setup on mini-batches of one
// kind. It measures the layers if Cost is Time.
func (s Setup) Pipeline(ctx context.Context, layers []nn.Layer, l nn.Loss, in gpipe.Input) (gpipe.Pipeline, error) {
	p, err := s.Uncut(layers, l, in)
	if err != nil {
		return p, err
	}
	return p, s.setCosts(ctx, &p, in, nil)
}

// setCosts sets the layers' costs, if something is to be cut by them. Measured are the
// layers' times, nil if they are not known yet.
func (s Setup) setCosts(ctx context.Context, p *gpipe.Pipeline, in gpipe.Input, measured []float64) (err error) {
	if s.Balance != nil || s.Partitions == 1 && s.Schedule.Straight() && s.ScheduleFile == "" {
		return nil
	}
	if s.Cost == Time && measured != nil {
		p.Costs = measured
		return nil
	}
	var d *gpipe.Description
	switch s.Cost {
	case FLOPs:
		d, err = p.Counted(in)
	case Memory:
		d, err = p.Describe(in)
	}
	if err == nil {
		p.Costs, err = s.Cost.Of(ctx, *p, in, d)
	}
	return err
}

// Uncut is Pipeline without the layers' costs.
func (s Setup) Uncut(layers []nn.Layer, l nn.Loss, in gpipe.Input) (gpipe.Pipeline, error) {
	p := gpipe.Pipeline{
		Layers: layers, Loss: l,
		Partitions: s.Partitions, MicroBatches: s.MicroBatches,
		Schedule: s.Schedule, Window: s.Window, Checkpoint: s.Checkpoint, LateRecompute: s.LateRecompute,
		Cut: gpipe.Cut{Chunks: s.Chunks, Balance: s.Balance, Partitioner: s.Partitioner},
		Replication: gpipe.Replication{
			Replicas: s.Replicas, Groups: s.Groups, Spatial: s.Spatial, Tensor: s.Tensor, Blocks: s.Blocks,
			ShardUpdate: s.ShardUpdate, TiedGradients: s.TiedGradients, BatchNormScope: s.BNScope,
		},
		Numerics: gpipe.Numerics{DType: s.DType},
		Devices:  []gpipe.Device{{Kind: s.Device, Threads: s.Threads, Capacity: s.MemoryCap, Link: s.Link}},
	}
	switch {
	case s.Partitions < 1:
		return p, failure.Usagef("%d partitions: want 1 to %d, the number of layers", s.Partitions, len(layers))
	case s.MicroBatches < 1:
		return p, failure.Usagef("%d micro-batches: want 1 to %d, the mini-batch", s.MicroBatches, in.Examples)
	case s.Device == gpipe.Host && s.Link != clock.Link{}:
		return p, failure.Usagef("a link's bandwidth or latency on host devices, which share memory: want emulated devices")
	case s.Cost == Time && s.Balance == nil && s.cutDecides():
		return p, failure.Usagef("a cut by measured times with %v, whose weights depend on the cut: want flops or memory, or the layers of each partition", s.Schedule)
	}
	if err := s.readSchedule(&p); err != nil {
		return p, err
	}
	return p, failure.Usage(p.Validate(in))
}

// cutDecides reports whether the bits depend on where the network is cut.
func (s Setup) cutDecides() bool {
	return s.Schedule == schedule.PipeDream || s.Schedule == schedule.PipeDreamNoStash
}

// dtype names the activations' type where it is not float32.
func (s Setup) dtype() string {
	if s.DType == graph.F32 {
		return ""
	}
	return s.DType.String()
}

// Of returns what each layer costs, from the network's description or measured.
func (c Cost) Of(ctx context.Context, p gpipe.Pipeline, in gpipe.Input, d *gpipe.Description) ([]float64, error) {
	switch c {
	case Time:
		return p.LayerTimes(ctx, in)
	case Memory:
		return d.Memory(), nil
	}
	return d.FLOPs(), nil
}

// ParseDType reads the dtype of activations.
func ParseDType(s string) (graph.DType, error) {
	switch s {
	case "bf16":
		return graph.BF16, nil
	case "f32":
		return graph.F32, nil
	}
	return 0, fmt.Errorf("unknown dtype %q: want bf16 or f32", s)
}
