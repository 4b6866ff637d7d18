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
		Short: "Predict published measurements of large training runs, and show the errors",
		Long: `Scoreboard predicts every training run in tables that others have measured and published,
as simulate does, from its shapes and one file for each accelerator. ` + published.Fitted + ` For
each table it prints how many rows can be modelled, the mean absolute error, the mean error
and its spread, the worst row, the rank correlation, and the regret: how much longer a step
takes in the configuration that the model would choose than in the best one measured.

Two simpler models are shown for comparison: a constant share of the peak, and this model
with one factor per device that is fitted on a table other than the one being judged.

--table reads your own file in the same format (docs/howto.md); errors in it are reported
with line and column. --json prints the measured and predicted value of each row, and why
other rows are not modelled.`,
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
	fs.StringVar(&s.File, "table", "", "file of tables, .yaml (default: the built-in tables)")
	fs.StringVar(&only, "only", "", "only these tables, by id: `ID,...`")
	fs.BoolVar(&asJSON, "json", false, "print rows and summaries as JSON")
	formatFlag(fs, &format, "tables", lab.Formats...)
	return cmd
}
