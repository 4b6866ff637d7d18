package simulate

import (
	"context"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/train"
)

// Describing is a network to describe and how to cut it.
type Describing struct {
	Model train.Model
	Setup train.Setup
	Batch int // examples of a mini-batch, for costs that depend on it
	Seed  uint64
	// Asynchronous is a schedule whose versions of the weights are described; GPipe: none.
	Asynchronous schedule.Schedule
}

// Description is a network layer by layer, and its partition.
type Description struct {
	Params    int64             `json:"params"`
	Layers    []gpipe.LayerInfo `json:"layers"`
	Partition Partition         `json:"partition"`
	Versions  []StageVersions   `json:"versions,omitempty"` // of an asynchronous schedule
	// Divided is the share of the multiply-adds that parts of operations divide; 0: there are none.
	Divided float64 `json:"divided,omitempty"`
}

// StageVersions are the versions of the weights that a stage keeps with an asynchronous schedule,
// in a window that is long enough for all of them, 2K mini-batches.
type StageVersions struct {
	Versions     int   `json:"versions"`
	Staleness    int   `json:"staleness"`     // updates between the weights that a mini-batch's F reads and its own update, at most
	WeightBytes  int64 `json:"weight_bytes"`  // float32, of one version
	StashedBytes int64 `json:"stashed_bytes"` // of all but the newest
}

// Partition is a cut of a network and its efficiency.
type Partition struct {
	Sizes []int `json:"sizes"`
	// Efficiency is the sum of the stages' costs over K times the largest.
	Efficiency float64   `json:"efficiency"`
	Cost       string    `json:"cost"`
	Costs      []float64 `json:"costs"` // of each stage
	Note       string    `json:"note,omitempty"`
}

// Run describes.
func (d Describing) Run(ctx context.Context) (*Description, error) {
	layers, err := d.Model.Build()
	if err != nil {
		return nil, err
	}
	loss, err := d.Model.Loss(0)
	if err != nil {
		return nil, err
	}
	in := d.Model.Input(d.Batch)
	p, err := d.Setup.Uncut(layers, loss, in)
	if err != nil {
		return nil, err
	}
	p.Seed = d.Seed
	desc, err := p.Describe(in)
	if err != nil {
		return nil, err
	}
	costs, err := d.Setup.Cost.Of(ctx, p, in, desc)
	if err != nil {
		return nil, err
	}
	r := &Description{Params: desc.Params, Layers: desc.Layers}
	r.Partition.Cost = d.Setup.Cost.String()
	r.Partition.Sizes = d.Setup.Balance
	if r.Partition.Sizes == nil {
		cut, err := partition.Split(d.Setup.Partitioner, costs, d.Setup.Partitions)
		if err != nil {
			return nil, err
		}
		r.Partition.Sizes, r.Partition.Note = cut.Sizes, cut.Moved
	}
	r.Partition.Costs, r.Partition.Efficiency = partition.StageCosts(costs, r.Partition.Sizes), partition.Efficiency(costs, r.Partition.Sizes)
	if p.Tensor > 1 || p.Blocks > 1 {
		if r.Divided, err = p.DividedShare(in); err != nil {
			return nil, err
		}
	}
	if d.Asynchronous.Asynchronous() {
		return r, r.addVersions(d.Asynchronous)
	}
	return r, nil
}

// addVersions describes what an asynchronous schedule keeps on each stage of the partition.
func (r *Description) addVersions(s schedule.Schedule) error {
	stages, micro := len(r.Partition.Sizes), 1
	if s == schedule.PipeDream2BW {
		micro = stages
	}
	lists, err := schedule.Window(s, stages, schedule.Ends(2*stages, micro), schedule.Never)
	if err != nil {
		return err
	}
	layers := r.Layers
	for k, list := range lists {
		of := StageVersions{Staleness: schedule.Staleness(list)}
		_, of.Versions = schedule.WeightSlots(list)
		for _, l := range layers[:r.Partition.Sizes[k]] {
			of.WeightBytes += l.Params * plan.FloatBytes
		}
		of.StashedBytes = int64(of.Versions-1) * of.WeightBytes
		layers = layers[r.Partition.Sizes[k]:]
		r.Versions = append(r.Versions, of)
	}
	return nil
}
