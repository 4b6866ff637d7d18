package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/experiments"
)

func newCalibrate() *cobra.Command {
	var c experiments.Calibrating
	var file string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine's core as an accelerator, for simulate",
		Long: `Calibrate times the operations of small networks, for some seconds, and prints the
file of an accelerator that is this machine's core: gpipebench calibrate > host.yaml,
then gpipebench simulate --device host.yaml --dtype f32.`,
		Args: noArguments,
		RunE: does(func(ctx context.Context, o *output) error {
			if err := experiments.CheckWritable(file); err != nil {
				return err
			}
			a, err := c.Run(ctx, o.progress)
			if err != nil {
				return err
			}
			if file != "" {
				return os.WriteFile(file, []byte(a.Text()), 0o644)
			}
			return o.printf("%s", a.Text())
		}),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	calibrationFlags(fs, &c)
	fs.StringVar(&file, "out", "", "file to write instead of printing")
	return cmd
}

func calibrationFlags(fs *pflag.FlagSet, c *experiments.Calibrating) {
	fs.StringVar(&c.Name, "name", "host", "the accelerator's name")
	value(fs, &c.Optimizer, "optimizer", "adam", strings.Join(experiments.Optimizers(), "|"), "whose update is measured", oneOf(experiments.Optimizers()...))
	fs.IntVar(&c.Threads, "threads", 1, "threads of the device")
	fs.Uint64Var(&c.Seed, "seed", 1, "of weights and data")
}

func newValidateModel() *cobra.Command {
	var v experiments.Validating
	var asJSON bool
	var format string
	cmd := &cobra.Command{
		Use:   "validate-model",
		Short: "Hold a modelled host against emulated runs of the same networks",
		Long: `Validate-model runs a Transformer, an AmoebaNet and a ResNet on 2, 4 and 8 emulated
devices, and models the same steps on this machine's core as calibrated. Times
should agree within 10%, memory to the byte.`,
		Args: noArguments,
		RunE: does(func(ctx context.Context, o *output) error {
			r, err := v.Run(ctx, o.progress)
			if err != nil {
				return err
			}
			if asJSON || format == "json" {
				return o.json(r)
			}
			return r.Table().Write(o.out, format)
		}),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&v.Accelerator, "device", "", "file that calibrate wrote (default: calibrate first)")
	fs.IntVar(&v.Steps, "steps", 5, "steps that are timed of each run")
	calibrationFlags(fs, &v.Calibrating)
	formatFlag(fs, &format)
	fs.BoolVar(&asJSON, "json", false, "print the outcome as JSON, as --format json")
	return cmd
}
