package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gpipebench/datasets"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
)

func newCorpus() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "corpus",
		Short: "Write the Go distribution's documentation as one text, to train on",
		RunE: does(func(_ context.Context, o *output) error {
			if out == "" {
				return &failure.UsageError{Err: errors.New("--out: want the name of a file")}
			}
			if err := files.CheckWritable(out); err != nil {
				return err
			}
			text, _, err := datasets.WriteGoDocumentation(out)
			if err != nil {
				return err
			}
			return o.printf("%s: %d bytes\n", out, len(text))
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err)
	}
	return cmd
}
