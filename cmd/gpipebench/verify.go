package main

import (
	"context"

	"github.com/spf13/cobra"

	"gpipebench/experiments/claims"
	"gpipebench/experiments/suite"
)

// newVerify is the command that holds the paper's claims against records.
func newVerify() *cobra.Command {
	v := claims.Verifying{}
	format, strict := "", false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold every claim of the paper against the records, and give a verdict for each",
		Long: `Verify computes a verdict for each claim of both versions of the paper, which
experiments/claims/claims.yaml lists, from a directory of results: exact claims are
recomputed, ratios are compared with what was measured and modelled, trends are
predicates over it. It also checks every record's checksum, that the tables are
all that the records give and nothing else, and the digests in SHA256SUMS, if the
directory has that file.

It fails where an exact claim or a trend does, where a record was changed, where
a table differs from its records, is missing or has no records, or where there are
no records at all. That a ratio of ours differs from the paper's is shown and is
no failure. An experiment that was not measured yet fails only with --strict.
Tables that show another run beside were made with that run: --reference says
which.

As CSV there are the verdicts alone; JSON has the state of the records as well.`,
		Example: `  gpipebench verify
  gpipebench verify --results results/local --format markdown`,
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
			case "csv":
				err = r.Tables()[0].Write(o.out, format)
			default:
				err = writeTables(o, &suite.Report{Tables: r.Tables()}, format)
			}
			if err != nil {
				return err
			}
			return r.Err(strict)
		}),
	}
	cmd.Flags().StringVar(&v.Results, "results", reference, "directory with records and tables")
	cmd.Flags().StringVar(&v.Reference, "reference", reference, "directory with the run that the tables show beside, if they do")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also where a claim or an experiment has no records")
	formatFlag(cmd.Flags(), &format, "the verdicts", suite.Formats...)
	return cmd
}
