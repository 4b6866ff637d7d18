package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/gpipe"
	"gpipebench/internal/files"
	"gpipebench/simulate"
	"gpipebench/train"
)

func newCalibrate() *cobra.Command {
	var c simulate.Calibrating
	var file string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine's core as an accelerator, for simulate",
		Long: `Calibrate times the operations of small networks, for some seconds, and prints the
file of an accelerator that is this machine's core: gpipebench calibrate > host.yaml,
then gpipebench simulate --device host.yaml --dtype f32. With --model the operations
of that network are timed too, one by one, on one device: simulate then shows how
long several such devices take.`,
		RunE: does(func(ctx context.Context, o *output) error {
			if err := files.CheckWritable(file); err != nil {
				return err
			}
			a, err := c.Run(ctx, o.progress)
			if err != nil {
				return err
			}
			if slow := (train.Setup{Device: gpipe.Emulated, Threads: c.Threads}).Crowded(); slow != "" {
				o.progress.Say(slow)
			}
			if file != "" {
				return files.Write(file, func(w io.Writer) error {
					_, err := io.WriteString(w, a.Text())
					return err
				})
			}
			return o.printf("%s", a.Text())
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&c.Name, "name", "host", "the accelerator's name")
	optimizerFlag(fs, &c.Optimizer)
	fs.Lookup("optimizer").Usage = "whose update is measured"
	threadsFlag(fs, &c.Threads)
	fs.Lookup("threads").Usage = "threads of the device; more than this machine's cores slow it down"
	seedFlag(fs, &c.Seed, "seed of weights and data")
	model := sizedModel()
	model.Name = ""
	modelFlags(cmd, &c.Own, model)
	batchFlag(fs, &c.Batch, 32, "examples of a mini-batch of --model")
	count(fs, &c.MicroBatches, "m|micro-batches", 1, 1, gpipe.MaxExamples, "micro-batches M of --model")
	fs.StringVar(&file, "out", "", "file to write instead of printing")
	general := []string{"name", "optimizer", "threads", "seed", "out"}
	own := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if fs.Changed("model") {
			return own(cmd, args)
		}
		fs.Visit(func(f *pflag.Flag) {
			if !slices.Contains(general, f.Name) {
				err = fmt.Errorf("--%s without --model: want a network", f.Name)
			}
		})
		return err
	}
	return cmd
}
