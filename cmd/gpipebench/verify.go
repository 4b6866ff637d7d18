package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/experiments"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/train/golden"
)

// newVerify returns the command that checks papers' claims with records.
func newVerify() *cobra.Command {
	v, against := claims.Verifying{All: experiments.Papers}, ""
	format, only, strict, verbose, hashes, schema := "", "", false, false, false, false
	alone := "" // a directory with a ledger of its own
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
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

With a directory, it judges the ledger there, DIR/claims.yaml, by the tables DIR/*.csv:
claims of a paper for which there is no code here, of figures that you have. It fails if a table
lacks a column or a row that a claim reads. --schema prints
what such a file may have as JSON Schema, for editors and other programs.

As CSV there are the verdicts alone; JSON has the state of the records as well.`,
		Example: `  gpipebench verify
  gpipebench verify --only disagrees,differs
  gpipebench verify --only cures,table1-25x
  gpipebench verify --paper all --results results/local --format markdown
  gpipebench verify --results results/local --against results/reference
  gpipebench verify --hashes
  gpipebench verify examples/ledger`,
		RunE: does(func(ctx context.Context, o *output) error {
			if hashes {
				return compareHashes(ctx, o)
			}
			if schema {
				return o.json(claims.Schema())
			}
			v.Rest = restOf(v.Results, v.Rest)
			judge := v.Run
			if alone != "" {
				judge = claims.Alone{Dir: alone, Only: v.Only}.Run
			}
			r, err := judge(ctx)
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
					err = cmp.Or(err, o.printf("\nThe evidence: gpipebench %s -v for every claim, --only ID,... or --only VERDICT,... for some.\n", strings.TrimSpace("verify "+alone)))
				}
			case "csv":
				err = r.Tables()[0].Write(o.out, format)
			default:
				err = writeTables(o, &lab.Report{Tables: r.Tables()}, format)
			}
			return cmp.Or(err, r.Err(strict))
		}),
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if hashes && len(args)+cmd.Flags().NFlag() > 1 {
			return errors.New("verify --hashes reads no records: want it alone")
		}
		if cmd.Flags().Changed("only") {
			v.Only = strings.Split(only, ",")
		}
		if len(args) == 0 {
			return nil
		}
		if st, err := os.Stat(filepath.Join(args[0], claims.AloneFile)); len(args) > 1 || err != nil || !st.Mode().IsRegular() {
			return fmt.Errorf("verify: unexpected argument %q: want a directory with %s, or flags only (see %s --help)", args[len(args)-1], claims.AloneFile, cmd.CommandPath())
		}
		for _, name := range []string{"results", "rest", "reference", "paper", "against"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("verify %q judges by the tables there: want no --%s", args[0], name)
			}
		}
		alone = args[0]
		return nil
	}
	cmd.Flags().StringVar(&v.Results, "results", referenceFull, "directory with records and tables")
	restFlag(cmd.Flags(), &v.Rest)
	cmd.Flags().StringVar(&v.Reference, "reference", reference, "directory with the run that the tables show as well, if they do")
	paperFlag(cmd.Flags(), &v.Paper, "whose claims (default: GPipe's, and of other papers that the directory has records of)")
	cmd.Flags().StringVar(&only, "only", "", "only these claims, by ID or verdict: `ID,...|VERDICT,...`")
	cmd.Flags().StringVar(&against, "against", "", "directory of results whose verdicts these are compared with")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every claim with its evidence")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of claims.yaml, and judge nothing")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also where a claim or an experiment has no records")
	cmd.Flags().BoolVar(&hashes, "hashes", false, "train small networks instead, and compare their weights with published hashes")
	formatFlag(cmd.Flags(), &format, "the verdicts", lab.Formats...)
	return cmd
}

// compareHashes prints a line for each golden training.
func compareHashes(ctx context.Context, o *output) error {
	return golden.Check(ctx, func(line string) error { return o.printf("%s\n", line) })
}
