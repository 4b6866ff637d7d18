package main

import (
	"github.com/spf13/cobra"

	"gpipebench/experiments"
	"gpipebench/lab/timed"
)

// newRound returns the command that reproduce starts for each timed round.
func newRound() *cobra.Command {
	return &cobra.Command{
		Use:    timed.RoundCommand,
		Short:  "Measure one round of an experiment, asked for on standard input, for reproduce",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ran(experiments.Round(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}
