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
		Long: `Verify computes a verdict for each claim of both versions of the GPipe paper, listed in
experiments/gpipe/claims.yaml, from a directory of results. Counts must match; ratios
are compared with our measured or modelled values within a tolerance; trends are
conditions that must hold; stand-ins agree with the paper or disagree. It prints the
outcome of the paper's main sentences, and with -v or --only each claim with its
evidence. Verdicts use 95% intervals where there are any. Training results over several
seeds are judged by the design in their spec: first gates of competence, then the
interval, corrected for the number of comparisons, against a margin. It also checks
every record's checksum, and that the tables are exactly what the records give; if --only
names IDs of claims, only what these claims read is checked.

Claims of another paper in experiments/ are judged too if the directory has records of
its experiments, or if --paper or --only asks for them.

It fails if a count or a trend fails, if a record was changed or does not belong to the
design that judges it, if a table differs from its records, is missing or has no records,
or if there are no records at all. A ratio that differs from the paper's, or a stand-in
that disagrees, is shown and is not a failure. An experiment that has not been measured
fails only with --strict. If tables also show another run, --reference names its
directory.

A claim rests on profile full where that was run: on ` + referenceFull + `, and
on ` + reference + ` for the experiments that it lacks. For other directories
--rest names the second one.

--against compares the verdicts on two directories of results, for example from two
machines; it lists the claims whose verdicts differ, and fails if there are any.

--hashes reads no records: it trains small networks of every kind, and says for each
whether this machine gets the published SHA-256 of the weights and the published loss,
which are the same on every processor. It fails if one differs.

With a directory DIR, verify judges the claims in DIR/claims.yaml by the tables
DIR/*.csv: claims of a paper for which there is no code here, with your own figures. It
fails if a table lacks a column or a row that a claim reads. --schema prints the JSON
Schema of such a file, for editors and other programs.

CSV output has only the verdicts; JSON also has the state of the records.`,
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
			return errors.New("verify --hashes reads no records: want no other flags or arguments")
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
	cmd.Flags().StringVar(&v.Reference, "reference", reference, "directory of the other run that the tables show, if they do")
	paperFlag(cmd.Flags(), &v.Paper, "whose claims; default: GPipe's, and those on other papers with records in the directory")
	cmd.Flags().StringVar(&only, "only", "", "only these claims, by ID or verdict: `ID,...|VERDICT,...`")
	cmd.Flags().StringVar(&against, "against", "", "directory of results to compare the verdicts with")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every claim with its evidence")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of claims.yaml, and judge nothing")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also where a claim or an experiment has no records")
	cmd.Flags().BoolVar(&hashes, "hashes", false, "instead train small networks and compare their weights with published hashes")
	formatFlag(cmd.Flags(), &format, "the verdicts", lab.Formats...)
	return cmd
}

// compareHashes prints a line for each golden training.
func compareHashes(ctx context.Context, o *output) error {
	return golden.Check(ctx, func(line string) error { return o.printf("%s\n", line) })
}
