package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/experiments/published"
	"gpipebench/lab"
)

// newScoreboard returns the command that predicts published measurements.
func newScoreboard() *cobra.Command {
	var s published.Scoring
	var asJSON bool
	only, format := "", ""
	cmd := &cobra.Command{
		Use:   "scoreboard",
		Short: "Predict published measurements of large trainings, and say how far off",
		Long: `Scoreboard models every training in tables that others have measured and published, as
simulate does, from its shapes and one file for each accelerator. ` + published.Fitted + ` For
each table it prints how many rows can be modelled, the mean absolute and the mean error,
their spread, the worst row, the rank correlation, and the regret: how much longer a step
takes in the configuration that the model would choose than in the best one measured.

Beside the model stand two simpler ones: a constant share of the peak, and the model with
one factor for the device, which comes from another table than the one that is judged.

--table reads a file of your own in the same form (docs/howto.md); every error in it has
its line and column. --json prints each row with what was measured and predicted, and why
others are not modelled.`,
		RunE: does(func(ctx context.Context, o *output) error {
			if only != "" {
				s.Only = strings.Split(only, ",")
			}
			b, err := s.Run(ctx, o.progress)
			if err != nil {
				return err
			}
			if asJSON {
				return o.json(b)
			}
			return b.Shown().Write(o.out, format)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&s.File, "table", "", "file of tables: .yaml (default: the ones that come with the program)")
	fs.StringVar(&only, "only", "", "only these tables, by id: `ID,...`")
	fs.BoolVar(&asJSON, "json", false, "print rows and summaries as JSON")
	formatFlag(fs, &format, "tables", lab.Formats...)
	return cmd
}
