package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/experiments"
)

// newVerify is the command that holds the paper's claims against records.
func newVerify() *cobra.Command {
	v := experiments.Verifying{}
	format, strict := "", false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold every claim of the paper against the records, and give a verdict for each",
		Long: `Verify computes a verdict for each claim of both versions of the paper, which
experiments/claims.yaml lists, from a directory of results: exact claims are
recomputed, ratios are compared with what was measured and modelled, trends are
predicates over it. It also checks every record's checksum, and that the tables
are what the records give.

It fails where an exact claim or a trend does, where a record was changed, or
where a table differs from its records. That a ratio of ours differs from the
paper's is shown and is no failure. Tables that show another run beside were made
with that run: --reference says which.`,
		Example: `  gpipebench verify
  gpipebench verify --results results/local --format markdown`,
		Args: noArguments,
		RunE: does(func(ctx context.Context, o *output) error {
			r, err := v.Run(ctx)
			if err != nil {
				return err
			}
			switch format {
			case "json":
				err = o.json(r)
			case "text":
				err = r.WriteText(o.out)
			default:
				err = writeTables(o, &experiments.Report{Tables: r.Tables()}, format)
			}
			if err != nil {
				return err
			}
			return r.Err(strict)
		}),
	}
	cmd.Flags().StringVar(&v.Results, "results", reference, "directory with records and tables")
	cmd.Flags().StringVar(&v.Reference, "reference", reference, "directory with the run that the tables show beside, if they do")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also where there is no record for a claim")
	value(cmd.Flags(), &format, "format", "text", strings.Join(experiments.Formats, "|"), "how to print the verdicts", oneOf(experiments.Formats...))
	return cmd
}
