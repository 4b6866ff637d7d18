package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport"
	"gpipebench/lab/exchange"
	"gpipebench/train"
)

// newExchange returns the command that experiments on exchanges start in several processes.
func newExchange() *cobra.Command {
	var of, text string
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:    exchange.Command,
		Short:  "Exchange tensors between processes, for experiments",
		Hidden: true,
		RunE: does(func(ctx context.Context, o *output) error {
			job, err := exchange.Read(of, text)
			if err != nil {
				return err
			}
			world, err := cluster.Ranks()
			if err != nil {
				return err
			}
			p, err := together(cmd, train.Processes{}, &train.Setup{Partitions: 1, Replicas: world.Size})
			if err != nil {
				return err
			}
			var all []json.RawMessage
			over := transport.Transport(transport.InProcess())
			if p != nil {
				over, err = p.Connect(ctx, "", "")
			}
			if err == nil {
				all, err = exchange.Run(ctx, over, world.Size, world.Rank, job)
			}
			if err = p.Leave(err); err != nil || o.follows {
				return err
			}
			return o.json(all)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&of, "of", "", "name of an exchange that an experiment has registered")
	fs.StringVar(&text, "job", "", "what is exchanged, as JSON")
	fs.Bool("json", true, "print JSON, as always") // what starts processes asks for it
	return cmd
}
