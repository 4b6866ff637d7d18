package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/experiments"
	"gpipebench/internal/failure"
	"gpipebench/internal/printable"
	"gpipebench/lab/records"
)

// newRecords returns the command that prints an experiment's samples.
func newRecords() *cobra.Command {
	results, rest, id := "", "", ""
	cmd := &cobra.Command{
		Use:   "records EXPERIMENT",
		Short: "Print the samples behind an experiment's tables",
		Long: `Records prints every sample of an experiment, one per line: its name, its seed if it
has one, and the measured values as JSON. Tables show what is computed from the samples;
only this command shows single runs.`,
		Example: `  gpipebench records stability
  gpipebench records lars-epochs --results results/reference`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(experiments.IDs(), args[0]) {
				return failure.Usagef("%q: want one experiment of %s", strings.Join(args, " "), strings.Join(experiments.IDs(), ", "))
			}
			id = args[0]
			return nil
		},
		RunE: does(func(_ context.Context, o *output) error {
			log, err := records.Load(records.File(results, id), id)
			if rest := restOf(results, rest); errors.Is(err, fs.ErrNotExist) && rest != "" {
				log, err = records.Load(records.File(rest, id), id)
			}
			if err != nil {
				return err
			}
			for _, name := range log.Names {
				s := log.Samples[name]
				seed := ""
				if s.Seed != 0 {
					seed = fmt.Sprintf(" seed %d", s.Seed)
				}
				_, failed := fmt.Fprintf(o.out, "%s%s %s\n", printable.Line(name), seed, s.Data)
				err = cmp.Or(err, failed)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&results, "results", referenceFull, "directory with records")
	restFlag(cmd.Flags(), &rest)
	return cmd
}
