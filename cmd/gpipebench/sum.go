package main

import (
	"context"

	"github.com/spf13/cobra"

	"gpipebench/experiments/mlperf/summation/sums"
	"gpipebench/gpipe/transport"
	"gpipebench/train"
)

// newSum returns the command that the experiment summation-measured starts in several
// processes.
func newSum() *cobra.Command {
	var job sums.Job
	var model train.Model
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:    sums.Command,
		Short:  "Add up a network's gradients over processes, for summation-measured",
		Hidden: true,
		RunE: does(func(ctx context.Context, o *output) error {
			var err error
			if job.Sizes, err = model.TrainedSizes(); err != nil {
				return err
			}
			var in processes
			world, err := in.world()
			if err != nil {
				return err
			}
			var all []sums.Outcome
			if err := in.together(ctx, cmd, &train.Setup{Partitions: 1, Replicas: world.Size}, func(p *train.Processes) error {
				var over transport.Transport = transport.InProcess()
				if p != nil {
					if over, err = p.Connect(ctx, ""); err != nil {
						return err
					}
				}
				all, err = sums.Run(ctx, over, world.Size, world.Rank, job)
				return err
			}); err != nil || follows() {
				return err
			}
			return o.json(all)
		}),
	}
	fs := modelFlags(cmd, &model, sizedModel())
	value(fs, &job.Way, "way", sums.Pipelined.String(), "first|pipelined", "how tensors come into messages", sums.ParseWay)
	count(fs, &job.Times, "times", 1, 1, 1000, "sums, one after another")
	seedFlag(fs, &job.Seed, "of the gradients' values")
	fs.Bool("json", true, "print JSON, as always") // what starts processes asks for it
	return cmd
}
