package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpipebench/experiments/workload"
	"gpipebench/internal/units"
)

func newBench() *cobra.Command {
	var b workload.Benching
	var format string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Time training steps",
		Long: `Bench times training steps: SGD with momentum 0.9, no dropout, synthetic data.
The first steps (--warmup) are discarded.`,
		RunE: does(func(ctx context.Context, o *output) error {
			r, err := b.Run(ctx, func(step int, seconds float64) {
				if step == 1-b.WarmUp { // the first: every step will take about as long
					all := seconds * float64(b.Steps+b.WarmUp)
					o.progress.Begin(fmt.Sprintf("bench: %d steps, and %d before them that are discarded, %s", b.Steps, b.WarmUp, units.About(time.Duration(all*float64(time.Second)))), b.Steps+b.WarmUp)
				}
				o.progress.Advance("step " + units.FormatSeconds(seconds))
			})
			o.progress.End()
			if err != nil {
				return err
			}
			if format == "json" {
				return o.json(r)
			}
			return printBench(o, r)
		}),
	}
	fs := modelFlags(cmd, &b.Model, sizedModel())
	batchFlag(fs, &b.Batch, 32, "examples of a mini-batch")
	count(fs, &b.Steps, "steps", 10, 1, workload.MaxBenchSteps, "steps that are timed")
	count(fs, &b.WarmUp, "warmup", 2, 0, workload.MaxBenchSteps, "steps before them, discarded")
	pipelineFlags(fs, &b.Setup, 1, 1)
	deviceFlags(fs, &b.Setup, "host")
	seedFlag(fs, &b.Seed, "of weights and data")
	outcomeFlags(fs, &format, "text", "json")
	return cmd
}

func printBench(o *output, r *workload.Bench) error {
	var b strings.Builder
	fmt.Fprintf(&b, "step: median %s, fastest %s, of %d (%d before them discarded); closed form %s\n",
		units.FormatSeconds(r.StepSeconds.Median), units.FormatSeconds(r.StepSeconds.Min), len(r.StepSeconds.All), r.Discarded,
		units.FormatSeconds(r.ClosedForm))
	fmt.Fprintf(&b, "%.4g examples/s, %s devices of %d threads, %s kernels\n", r.ExamplesPerSecond, r.Device, r.Threads, r.KernelProfile)
	printMemory(&b, r.Partition, r.PeakBytes, r.HighWaterBytes)
	if r.Note != "" {
		fmt.Fprintf(&b, "partition: %s\n", r.Note)
	}
	fmt.Fprintf(&b, "resident memory of the process, at most: %s\n", units.FormatBytes(r.MaxRSSBytes))
	return o.printf("%s", b.String())
}
