package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/densify/exchange"
	"gpipebench/gpipe/transport"
	"gpipebench/train"
)

// newAccumulate returns the command that the experiment accumulation-measured starts in
// several processes.
func newAccumulate() *cobra.Command {
	var job exchange.Job
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:    exchange.Command,
		Short:  "Accumulate a tied table's gradient over processes, for accumulation-measured",
		Hidden: true,
		RunE: does(func(ctx context.Context, o *output) error {
			var in processes
			world, err := in.world()
			if err != nil {
				return err
			}
			var all []exchange.Outcome
			if err := in.together(ctx, cmd, &train.Setup{Partitions: 1, Replicas: world.Size}, func(p *train.Processes) error {
				var over transport.Transport = transport.InProcess()
				if p != nil {
					if over, err = p.Connect(ctx, ""); err != nil {
						return err
					}
				}
				all, err = exchange.Run(ctx, over, world.Size, world.Rank, job)
				return err
			}); err != nil || follows() {
				return err
			}
			return o.json(all)
		}),
	}
	fs := cmd.Flags()
	count(fs, &job.Table.Vocab, "vocab", 33708, 1, 1<<24, "rows of the table")
	count(fs, &job.Table.Dim, "dim", 1024, 1, 1<<20, "columns")
	count(fs, &job.Table.Source, "source", 5000, 0, 1<<20, "tokens of a process's mini-batch")
	count(fs, &job.Table.Target, "target", 5000, 0, 1<<20, "the same, on the other side")
	value(fs, &job.Way, "way", accumulate.Reduce.String(), "gather|reduce", "how the gradient is accumulated", func(s string) (accumulate.Way, error) {
		for _, way := range exchange.Ways() {
			if way.String() == s {
				return way, nil
			}
		}
		return 0, errors.New("want gather or reduce")
	})
	seedFlag(fs, &job.Seed, "of the gradient's values")
	fs.Bool("json", true, "print JSON, as always") // what starts processes asks for it
	return cmd
}
