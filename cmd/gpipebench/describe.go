package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/simulate"
)

func newDescribe() *cobra.Command {
	var d simulate.Describing
	var format string
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show a network layer by layer, and how it would be cut",
		RunE: does(func(ctx context.Context, o *output) error {
			r, err := d.Run(ctx)
			if err != nil {
				return err
			}
			if format == "json" {
				return o.json(r)
			}
			return printDescription(o, &d, r, format)
		}),
	}
	fs := modelFlags(cmd, &d.Model, sizedModel())
	d.Setup.MicroBatches = 1
	count(fs, &d.Setup.Partitions, "k|partitions", 1, 1, gpipe.MaxTasks, "partitions, K; 1 to the number of layers")
	cutFlags(fs, &d.Setup)
	value(fs, &d.Asynchronous, "schedule", "gpipe", "gpipe|"+strings.Join(schedule.AsynchronousNames(), "|"), "an asynchronous schedule, to show each partition's weight versions", func(name string) (schedule.Schedule, error) {
		if _, err := oneOf(append(schedule.AsynchronousNames(), "gpipe")...)(name); err != nil {
			return 0, err
		}
		return schedule.Parse(name)
	})
	tensorFlags(fs, &d.Setup, "tensor-parallel parts of each stage, T; shows the share of the multiply-adds that is split. 0: one")
	batchFlag(fs, &d.Batch, 1, "examples in a micro-batch, for --cost time")
	outcomeFlags(fs, &format, lab.Formats...)
	return cmd
}

func printDescription(o *output, d *simulate.Describing, r *simulate.Description, format string) error {
	t := lab.Table{
		Title:   fmt.Sprintf("%s: %d parameters", d.Model.Name, r.Params),
		Caption: []string{"FLOPs (2 x multiply-adds of matrix products, forward) and bytes saved for the backward are per example."},
	}
	t.Texts("layer")
	t.Numbers("parameters", "FLOPs", "saved bytes")
	t.Texts("output")
	t.Numbers("partition")
	stage, left := 0, r.Partition.Sizes[0]
	for _, l := range r.Layers {
		if left == 0 {
			stage++
			left = r.Partition.Sizes[stage]
		}
		left--
		var shapes []string
		for _, s := range l.OutShape {
			shapes = append(shapes, fmt.Sprint(s))
		}
		t.Add(l.Name, l.Params, l.FLOPs, l.SavedBytes, strings.Join(shapes, " "), stage)
	}
	t.Notes = []string{fmt.Sprintf("Partition %v by %s, efficiency %.3f.", r.Partition.Sizes, r.Partition.Cost, r.Partition.Efficiency)}
	if r.Partition.Note != "" {
		t.Notes = append(t.Notes, r.Partition.Note)
	}
	if r.Divided > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("The parts split %.4g%% of the multiply-adds; each part does all of the rest.", 100*r.Divided))
	}
	if err := t.Write(o.out, format); err != nil || r.Versions == nil {
		return err
	}
	of := lab.Table{
		Title:   fmt.Sprintf("Versions of the weights with %v", d.Asynchronous),
		Caption: []string{"For windows of at least twice as many mini-batches as partitions. Staleness: the most updates between the weights that a mini-batch's F reads and the update by its gradient. Bytes: float32."},
	}
	of.Numbers("partition", "versions", "staleness", "weights", "stashed")
	for k, v := range r.Versions {
		of.Add(k, v.Versions, v.Staleness, lab.Bytes(v.WeightBytes), lab.Bytes(v.StashedBytes))
	}
	if err := o.printf("\n"); err != nil {
		return err
	}
	return of.Write(o.out, format)
}
