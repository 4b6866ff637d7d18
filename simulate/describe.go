package simulate

import (
	"context"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/train"
)

// Describing is a network to describe and how to cut it.
type Describing struct {
	Model train.Model
	Setup train.Setup
	Batch int // examples of a mini-batch, for costs that depend on it
	Seed  uint64
}

// Description is a network layer by layer, and its partition.
type Description struct {
	Params    int64             `json:"params"`
	Layers    []gpipe.LayerInfo `json:"layers"`
	Partition Partition         `json:"partition"`
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
	return r, nil
}
