package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"gpipebench/experiments"
	"gpipebench/internal/failure"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/train/golden"
)

// newVerify returns the command that checks papers' claims with records.
func newVerify() *cobra.Command {
	v, against := claims.Verifying{All: experiments.Papers}, ""
	format, strict, verbose, hashes := "", false, false, false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every claim of a paper with the records, and give a verdict for each",
		Long: `Verify computes a verdict for each claim of both versions of the GPipe paper, which
experiments/gpipe/claims.yaml lists, from a directory of results: counts must
come out, ratios are compared with what was measured and modelled within a
tolerance, trends are conditions that must hold, stand-ins agree with the paper or
disagree. It prints what the paper's main sentences come to, and with -v or --only each
claim with its evidence. A verdict uses the 95% intervals where there are some. What
trainings over seeds show is judged by the design in their spec: competence first, then
the interval at a level that is corrected for their number, against a margin. It also
checks every record's checksum, and that the tables are all that the records give and
nothing else; with the IDs of claims as --only, those that these claims read.

The claims of another paper's folder in experiments/ are judged as well if the
directory has records of its experiments, or if --paper or --only asks for them.

It fails if a count or a trend fails, if a record was changed or is not of the design
that judges it, if a table differs from its records, is missing or has no records, or
if there are no records at all.
A ratio of ours that differs from the paper's, or a stand-in that disagrees, is
shown and does not fail. An experiment that was not measured yet fails only with
--strict. Tables that show another run as well were made with that run:
--reference names it.

A claim rests on profile full where that was run: on ` + referenceFull + `, and
on ` + reference + ` for the experiments that it lacks. Of other directories
--rest names the second.

With --against the verdicts on two directories of results are compared, for
instance of two machines; it lists the claims whose verdicts differ, and fails if
there are any.

With --hashes it reads no records: it runs small trainings of every kind of network,
and says for each whether this machine ends with the published SHA-256 of the weights
and loss, which are the same on every processor. It fails if one is not.

As CSV there are the verdicts alone; JSON has the state of the records as well.`,
		Example: `  gpipebench verify
  gpipebench verify --only disagrees,differs
  gpipebench verify --only cures,table1-25x
  gpipebench verify --paper all --results results/local --format markdown
  gpipebench verify --results results/local --against results/reference
  gpipebench verify --hashes`,
		RunE: does(func(ctx context.Context, o *output) error {
			if hashes {
				if against != "" || v.Paper != "" || v.Results != referenceFull || len(v.Only) > 0 || strict || verbose || format != "text" {
					return failure.Usagef("--hashes, which reads no records, with flags about records or their form: want it alone")
				}
				return compareHashes(ctx, o)
			}
			v.Rest = restOf(v.Results, v.Rest)
			r, err := v.Run(ctx)
			if err != nil {
				return err
			}
			if against != "" {
				other, err := claims.Verifying{All: experiments.Papers, Results: against, Rest: restOf(against, ""), Reference: v.Reference, Paper: experiments.AllPapers}.Run(ctx)
				if err != nil {
					return err
				}
				c := r.Against(other)
				if format == "json" {
					err = o.json(c)
				} else {
					err = c.Table().Write(o.out, format)
				}
				return cmp.Or(err, c.Err())
			}
			switch format {
			case "json":
				err = o.json(r)
			case "text":
				err = r.WriteText(o.out, verbose || len(v.Only) > 0)
				if !verbose && len(v.Only) == 0 {
					err = cmp.Or(err, o.printf("\nThe evidence: gpipebench verify -v for every claim, --only ID,... or --only VERDICT,... for some.\n"))
				}
			case "csv":
				err = r.Tables()[0].Write(o.out, format)
			default:
				err = writeTables(o, &lab.Report{Tables: r.Tables()}, format)
			}
			return cmp.Or(err, r.Err(strict))
		}),
	}
	cmd.Flags().StringVar(&v.Results, "results", referenceFull, "directory with records and tables")
	restFlag(cmd.Flags(), &v.Rest)
	cmd.Flags().StringVar(&v.Reference, "reference", reference, "directory with the run that the tables show as well, if they do")
	paperFlag(cmd.Flags(), &v.Paper, "whose claims (default: GPipe's, and of other papers that the directory has records of)")
	value(cmd.Flags(), &v.Only, "only", "", "ID,...|VERDICT,...", "only these claims, by ID or verdict", func(text string) ([]string, error) {
		return claims.ParseOnly(experiments.Papers, text)
	})
	cmd.Flags().StringVar(&against, "against", "", "directory of results whose verdicts these are compared with")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every claim with its evidence")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also where a claim or an experiment has no records")
	cmd.Flags().BoolVar(&hashes, "hashes", false, "train small networks instead, and compare their weights with published hashes")
	formatFlag(cmd.Flags(), &format, "the verdicts", lab.Formats...)
	return cmd
}

// compareHashes prints a line for each golden training.
func compareHashes(ctx context.Context, o *output) error {
	return golden.Check(ctx, func(line string) error { return o.printf("%s\n", line) })
}
