package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpipebench/internal/files"
	"gpipebench/lab/claims"
	"gpipebench/lab/page"
)

// newReport returns the command that makes one page of results.
func newReport() *cobra.Command {
	r := page.Reporting{}
	file := ""
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Make one HTML page of tables, plots, claims and provenance",
		Long: `Report computes every table and plot from the records of a directory of results,
with the verdicts on the paper's claims, and writes them as one HTML page that
needs no other file, network or script. Experiments of profile full are shown with
the figures of profile quick beside. The same records give the same bytes.
Nothing is measured; it takes some seconds.`,
		Example: `  gpipebench report
  gpipebench report --results results/local --out page.html`,
		RunE: does(func(ctx context.Context, o *output) error {
			r.Rest = restOf(r.Results, r.Rest)
			if file == "" {
				file = filepath.Join(r.Results, "report.html")
			}
			_, err := writePage(ctx, o, r, file)
			return err
		}),
	}
	cmd.Flags().StringVar(&r.Results, "results", referenceFull, "directory with records, as reproduce writes it")
	restFlag(cmd.Flags(), &r.Rest)
	cmd.Flags().StringVar(&r.Reference, "reference", reference, "directory with a run to show as well, if it is there")
	cmd.Flags().StringVar(&file, "out", "", "file to write; - for standard output (default: report.html in the directory of results)")
	return cmd
}

// writePage writes the page of a directory of results, and returns what it has read there, also if
// the page cannot be written.
func writePage(ctx context.Context, o *output, r page.Reporting, file string) (*claims.Reading, error) {
	if file != "-" {
		if err := files.CheckWritable(file); err != nil {
			return nil, err
		}
	}
	reading, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	if file == "-" {
		return reading, r.Write(ctx, reading, o.out)
	}
	// In memory first, so that an error of the records does not begin with the file's
	// name.
	var page bytes.Buffer
	if err := r.Write(ctx, reading, &page); err != nil {
		return reading, err
	}
	if err := files.Write(file, func(w io.Writer) error { _, err := w.Write(page.Bytes()); return err }); err != nil {
		return reading, err
	}
	o.progress.Say("the report is in " + file)
	return reading, nil
}
