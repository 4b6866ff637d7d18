package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpipebench/experiments"
	"gpipebench/internal/files"
	"gpipebench/lab/claims"
	"gpipebench/lab/page"
)

// reportDir is where a directory of results has its pages.
const reportDir = "report"

// newReport returns the command that makes pages of results.
func newReport() *cobra.Command {
	r := page.Reporting{Papers: experiments.Papers}
	dir := ""
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Make HTML pages of tables, plots, claims and provenance",
		Long: `Report computes every table and plot from the records of a directory of results,
with the verdicts on the papers' claims, and writes them as HTML: index.html about
GPipe, section6.html about its section 6, a page for every other paper with records,
and for each a page of its claims. The pages need no other file, network or script
(except schedule.html, which has a script for its sliders). Experiments of profile full
are shown next to the figures of profile quick. The same records give the same bytes.
Nothing is measured; it takes some seconds.`,
		Example: `  gpipebench report
  gpipebench report --results results/local --out pages`,
		RunE: does(func(ctx context.Context, o *output) error {
			r.Rest = restOf(r.Results, r.Rest)
			if dir == "" {
				dir = filepath.Join(r.Results, reportDir)
			}
			_, err := writePages(ctx, o, r, dir)
			return err
		}),
	}
	cmd.Flags().StringVar(&r.Results, "results", referenceFull, "directory with records, as reproduce writes it")
	restFlag(cmd.Flags(), &r.Rest)
	cmd.Flags().StringVar(&r.Reference, "reference", reference, "directory of another run to show in the tables, if it exists")
	cmd.Flags().StringVar(&dir, "out", "", "directory to write to (default: report, in the directory of results)")
	return cmd
}

// writePages writes the pages of a directory of results, and returns what it has read there, also
// if the pages cannot be written.
func writePages(ctx context.Context, o *output, r page.Reporting, dir string) (*claims.Reading, error) {
	reading, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	// All of them first, so that an error of the records does not begin with a file's name.
	pages, err := r.Pages(ctx, reading)
	if err != nil {
		return reading, err
	}
	if err := files.MakeDir(dir); err != nil {
		return reading, err
	}
	for _, p := range pages {
		if err := files.Write(filepath.Join(dir, p.Name), p.Write); err != nil {
			return reading, err
		}
	}
	o.progress.Say("the report is in " + filepath.Join(dir, page.Index))
	return reading, nil
}
