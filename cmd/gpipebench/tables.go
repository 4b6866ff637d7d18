package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/experiments"
	"gpipebench/internal/files"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/page"
	"gpipebench/lab/timed"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// reference is where a checkout has the records to compare with. Those of profile full
// are beside, in a directory of its own.
const (
	reference     = "results/reference"
	referenceFull = reference + "-full"
)

// restFlag adds the flag that names the directory for what another lacks.
func restFlag(flags *pflag.FlagSet, rest *string) {
	flags.StringVar(rest, "rest", "", "directory of results for the experiments that --results lacks (default: none; for "+referenceFull+", "+reference+")")
}

// restOf is what was named for the experiments that a directory of results lacks, or goes
// without saying.
func restOf(results, named string) string {
	if named == "" && filepath.Clean(results) == filepath.FromSlash(referenceFull) {
		return reference
	}
	return named
}

func newReproduce() *cobra.Command {
	r := experiments.Reproducing{}
	format, verbose := "", false
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Run a paper's experiments and write their records and tables",
		Long: `Reproduce runs the experiments and writes their records and the tables computed from
them to a directory: records/*.jsonl, tables/*.md, *.csv, plots, and timelines of steps
as text, SVG and Chrome trace JSON; report/index.html shows all of it. It ends with the
outcome of the paper's main sentences, and with how many verdicts are as in the
reference. With -v, or for a single experiment, it also prints the tables.

The experiments are those on the GPipe paper, except its section 6 (gpipebench section6).
Other values of --paper: densify (gathering or reducing gradients, Cavdar et al. 2019),
bubbles (later schedules, Qi et al. 2024), mlperf (large batches on TPU pods, Kumar et
al. 2019), published (published step times of large training runs), beyond (what no paper
has, such as replicas of pipelines), and all.

Samples that the directory already has for the same spec and machine are not measured
again, so a stopped run continues where it was; a line says so if another engine measured
them, and --fresh measures again. Tables also show the values of
` + reference + `, if it exists.`,
		Example: `  gpipebench reproduce
  gpipebench reproduce --profile smoke --out /tmp/smoke
  gpipebench reproduce --only table2,figure3
  gpipebench reproduce --paper beyond`,
		RunE: does(func(ctx context.Context, o *output) error {
			loaded, err := r.Load()
			if err != nil {
				return err
			}
			each := loaded.Expected()
			var total time.Duration
			for _, expected := range each {
				total += expected
			}
			if r.Out != "" {
				dir := filepath.Join(r.Out, reportDir)
				if err := files.MakeDir(dir); err != nil {
					return err
				}
				if err := files.CheckWritable(filepath.Join(dir, page.Index)); err != nil {
					return err
				}
			}
			o.progress.Say(fmt.Sprintf("reproduce, profile %s: about %s, into %s", r.Profile, units.FormatWait(total), r.Out))
			shown, tables := 0, verbose || len(each) == 1
			err = printReports(ctx, o, loaded, format, tables, func(report *lab.Report) error {
				shown++
				if format != "text" || !tables { // tables only, or nothing
					return nil
				}
				for _, f := range report.Files {
					if strings.HasSuffix(f.Name, ".timeline.txt") {
						if err := o.printf("%s\n", f.Text); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if ctx.Err() != nil || r.Out == "" || shown == 0 {
				return err
			}
			// The pages have failing verdicts as well.
			pages := page.Reporting{Papers: experiments.Papers, Results: r.Out, Rest: restOf(r.Out, ""), Reference: r.Reference}
			reading, failed := writePages(ctx, o, pages, filepath.Join(r.Out, reportDir))
			err = errors.Join(err, failed)
			if reading != nil && format == "text" {
				err = errors.Join(err, conclude(ctx, o, r, cmp.Or(r.Paper, experiments.Papers[0].Name), reading, filepath.Join(reportDir, page.Index)))
			}
			return err
		}),
	}
	profileFlag(cmd, &r.Profile)
	value(cmd.Flags(), &r.Only, "only", "", "id,id,...", "only these experiments; the names are "+strings.Join(experiments.IDs(), ", "), func(text string) ([]string, error) {
		ids := strings.Split(text, ",")
		for _, id := range ids {
			if _, err := oneOf(experiments.IDs()...)(id); err != nil {
				return nil, err
			}
		}
		return append(r.Only, ids...), nil // the flag may be given more than once
	})
	paperFlag(cmd.Flags(), &r.Paper, "whose experiments; default: gpipe, with --only or --spec any")
	cmd.Flags().StringVar(&r.Out, "out", "results/local", "directory for records and tables")
	formatFlag(cmd.Flags(), &format, "tables", lab.Formats...)
	tablesFlag(cmd, &verbose)
	runFlags(cmd, &r)
	return cmd
}

// conclude prints what a paper's main sentences come to on the results of a run, which were
// read, how many verdicts are as in the reference, and where the tables are.
func conclude(ctx context.Context, o *output, r experiments.Reproducing, paper string, reading *claims.Reading, tables string) error {
	v, err := reading.About(paper).Judge()
	if err != nil {
		return err
	}
	if err := v.WriteText(o.out, false); err != nil {
		return err
	}
	if st, err := os.Stat(r.Reference); err == nil && st.IsDir() && filepath.Clean(r.Reference) != filepath.Clean(r.Out) {
		there, err := claims.Verifying{All: experiments.Papers, Results: r.Reference, Reference: r.Reference, Paper: experiments.AllPapers}.Run(ctx)
		if err != nil {
			return err
		}
		if err := o.printf("%s\n", v.Against(there).Says()); err != nil {
			return err
		}
	}
	return o.printf("\nAll tables and plots: %s. The evidence: gpipebench verify -v --results %s\n", filepath.Join(r.Out, tables), r.Out)
}

// printReports runs experiments, and calls then with each report as soon as it is complete. Its
// tables are printed before that if they are wanted, or if a format other than text is asked for;
// JSON is one document at the end.
func printReports(ctx context.Context, o *output, r experiments.Loaded, format string, tables bool, then func(*lab.Report) error) error {
	var all lab.Report
	err := r.Run(ctx, o.progress, func(_ lab.Experiment, report *lab.Report) error {
		if format == "json" {
			all.Tables = append(all.Tables, report.Tables...)
		} else if tables || format != "text" {
			if err := writeTables(o, report, format); err != nil {
				return err
			}
		}
		return then(report)
	})
	if len(all.Tables) > 0 {
		err = errors.Join(err, writeTables(o, &all, format))
	}
	return err
}

// runFlags adds the flags that reproduce and single tables have in common.
func runFlags(cmd *cobra.Command, r *experiments.Reproducing) {
	r.Executable, _ = os.Executable() // if unknown, rounds share this process
	cmd.Flags().StringVar(&r.Reference, "reference", reference, "directory of another run to show in the tables, if it exists")
	cmd.Flags().StringVar(&r.Spec, "spec", "", "spec file to use instead of the built-in one (spec.yaml in a folder of experiments/); it determines which experiment runs")
	cmd.Flags().BoolVar(&r.Fresh, "fresh", false, "measure again, even where records exist")
}

// tablesFlag adds -v to a command that runs several experiments.
func tablesFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVarP(to, "verbose", "v", false, "print the tables of each experiment as well")
}

// paperFlag adds --paper.
func paperFlag(fs *pflag.FlagSet, to *string, usage string) {
	names := experiments.PaperNames()
	value(fs, to, "paper", "", strings.Join(names, "|"), usage, oneOf(names...))
}

// newTables is a command that runs experiments and prints their tables: of one experiment, of the
// parts of one table, or of a paper. A paper's are printed if they are asked for or not written to
// files, and with files it ends with the verdicts; nil: they are not all of a paper.
func newTables(name, short string, parts []lab.Definition, paper *lab.Paper) *cobra.Command {
	r := experiments.Reproducing{}
	format, printed, typed, verbose := "", "", "", false
	cmd := &cobra.Command{
		Use: name, Short: short,
		RunE: does(func(ctx context.Context, o *output) error {
			if r.DType != "" {
				r.Only = []string{typed}
			}
			if printed != "" {
				return printSpec(o, r, printed)
			}
			tables := verbose || paper == nil || r.Out == "" || r.Spec != ""
			loaded, err := r.Load()
			if err != nil {
				return err
			}
			err = printReports(ctx, o, loaded, format, tables, func(*lab.Report) error { return nil })
			if format == "text" && slices.ContainsFunc(parts, func(d lab.Definition) bool { return d.Hashes }) {
				err = errors.Join(err, compareHashes(ctx, o))
			}
			if err != nil || paper == nil || r.Out == "" || format != "text" {
				return err
			}
			reading, err := claims.Verifying{All: experiments.Papers, Results: r.Out, Rest: restOf(r.Out, ""), Reference: r.Reference}.Read(ctx)
			if err != nil {
				return err
			}
			return conclude(ctx, o, r, paper.Name, reading, "tables")
		}),
	}
	if paper != nil {
		tablesFlag(cmd, &verbose)
	}
	for _, d := range parts {
		r.Only = append(r.Only, d.ID)
		if d.TypedActivations {
			typed = d.ID
			value(cmd.Flags(), &r.DType, "dtype", "f32", "f32|bf16", "type of activations; bf16: only "+d.ID+", with separate records", func(text string) (string, error) {
				if dt, err := train.ParseDType(text); err != nil || dt == graph.F32 {
					return "", err
				}
				return text, nil
			})
		}
	}
	axisFlag(cmd.Flags(), &r.K, "k", "partitions, K", parts)
	axisFlag(cmd.Flags(), &r.M, "m", "micro-batches, M", parts)
	profileFlag(cmd, &r.Profile)
	formatFlag(cmd.Flags(), &format, "tables", lab.Formats...)
	cmd.Flags().StringVar(&r.Out, "out", "", "directory for records and tables (default: none are written)")
	runFlags(cmd, &r)
	value(cmd.Flags(), &printed, "print-spec", "", "ID", "print a spec, for use with --spec, and measure nothing; one of "+strings.Join(r.Only, ", "), oneOf(r.Only...))
	cmd.Flags().Lookup("print-spec").NoOptDefVal = r.Only[0]
	return cmd
}

// axisFlag adds a flag that replaces a field of the specs of experiments, if all of them have it.
func axisFlag(fs *pflag.FlagSet, to *[]int, axis, what string, parts []lab.Definition) {
	if slices.ContainsFunc(parts, func(d lab.Definition) bool { return !d.HasAxis(axis) }) {
		return
	}
	value(fs, to, axis+"|"+axis, "", "n,n,...", what+", instead of the spec's; values that are not in the paper are allowed", func(text string) ([]int, error) {
		numbers, err := parseInts(text)
		slices.Sort(numbers)
		return numbers, err
	})
}

// printSpec prints the spec by which an experiment would run.
func printSpec(o *output, r experiments.Reproducing, id string) error {
	if r.Spec == "" { // which says what it is for
		r.Only = []string{id}
	}
	loaded, err := r.Load()
	if err != nil {
		return err
	}
	return o.printf("%s", loaded.Specs()[0].Text)
}

// writeTables prints a report's tables, JSON as one document.
func writeTables(o *output, r *lab.Report, format string) error {
	if format == "json" {
		return o.json(r.Tables)
	}
	for _, t := range r.Tables {
		if err := t.Write(o.out, format); err != nil {
			return err
		}
		if err := o.printf("\n"); err != nil {
			return err
		}
	}
	return nil
}

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
