package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/simulate"
)

// newCut returns the command that cuts a network by its profile.
func newCut() *cobra.Command {
	var c simulate.Cutting
	var file, format string
	cmd := &cobra.Command{
		Use:   "cut --costs FILE.csv",
		Short: "Cut the profiled layers of any network into stages, by every rule",
		Long: `Cut reads a file of measured layers and cuts them into K stages by every partitioner, by
time and by size. The first line of the file names its columns: name and f, and b, w and
bytes if they were measured. Each other line is a layer, in order: the milliseconds of its
forward pass (f), input gradient (b) and weight gradient (w) for one micro-batch, and the
bytes that its device must hold. docs/howto.md has a few lines of PyTorch that write it.

--out writes the stages of the best cut in the same format, for schedule --times.`,
		RunE: does(func(_ context.Context, o *output) error {
			if err := checkOutputs([][2]string{{"costs", c.Costs}}, [2]string{"out", file}); err != nil {
				return err
			}
			r, err := c.Run()
			if err != nil {
				return err
			}
			if file != "" {
				if err := files.Write(file, r.Stages.Write); err != nil {
					return err
				}
			}
			if format == "json" {
				return o.json(r)
			}
			return printCuts(o, &c, r, format)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&c.Costs, "costs", "", "file of measured layers, .csv")
	count(fs, &c.K, "k|partitions", 4, 1, gpipe.MaxTasks, "partitions, K; 1 to the number of layers")
	value(fs, &c.Limit, "memory-limit", "", "bytes", "memory limit of a stage, such as 16GiB (default: no limit)", units.ParseBytes)
	fileFlag(fs, &file, "out", "file for the stages of the best cut, .csv", ".csv")
	outcomeFlags(fs, &format, lab.Formats...)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if c.Costs == "" {
			return failure.Usage(errors.New("no --costs: want a file of measured layers"))
		}
		return nil
	}
	return cmd
}

func printCuts(o *output, c *simulate.Cutting, r *simulate.Cuts, format string) error {
	t := lab.Table{
		Title:   fmt.Sprintf("%d layers in %s", r.Layers, units.Counted(c.K, "stage")),
		Caption: []string{"The slowest stage sets the pace; efficiency is the mean of the stages' times over the slowest."},
	}
	t.Texts("rule", "cut by")
	t.Numbers("slowest stage, ms", "efficiency", "fullest stage")
	t.Texts("fits", "layers")
	for _, w := range r.Ways {
		fits, fullest := "yes", lab.Absent
		if !w.Fits {
			fits = "no"
		}
		if w.Fullest > 0 {
			fullest = lab.Bytes(int64(w.Fullest))
		}
		t.Add(w.Rule, w.By, lab.Number("%.6g", w.Slowest), lab.Number("%.3f", w.Efficiency), fullest, fits, short(w.Sizes))
		if w.Note != "" {
			t.Notes = append(t.Notes, w.Rule+" by "+w.By+": "+w.Note+".")
		}
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Best: %s by %s.", r.Best.Rule, r.Best.By))
	return t.Write(o.out, format)
}
