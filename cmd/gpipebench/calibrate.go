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
		Short: "Measure a core of this machine as an accelerator, for simulate",
		Long: `Calibrate times the operations of small networks for some seconds, and prints an
accelerator file that describes a core of this machine: gpipebench calibrate > host.yaml,
then gpipebench simulate --device host.yaml --dtype f32. With --model it also times the
operations of that network, one by one, on one device; simulate then shows how long
several such devices would take.`,
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
	fs.Lookup("optimizer").Usage = "optimiser whose update is measured"
	threadsFlag(fs, &c.Threads)
	fs.Lookup("threads").Usage = "threads of the device; more than this machine's cores slow it down"
	seedFlag(fs, &c.Seed, "seed of weights and data")
	model := sizedModel()
	model.Name = ""
	modelFlags(cmd, &c.Own, model)
	batchFlag(fs, &c.Batch, 32, "examples per mini-batch of --model")
	count(fs, &c.MicroBatches, "m|micro-batches", 1, 1, gpipe.MaxExamples, "micro-batches per mini-batch of --model, M")
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
