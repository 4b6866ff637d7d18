package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/train"
)

func newBench() *cobra.Command {
	var b train.Benching
	var format string
	var in train.Processes
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "bench",
		Short: "Time training steps",
		Long: `Bench times training steps: SGD with momentum 0.9, no dropout, synthetic data.
The first steps (--warmup) are discarded.

With --by-op it also shows where the time of a step goes: for each kernel its calls,
time, FLOPs and bytes per step, and how close it is to this machine's roofline; then
what devices do besides running kernels. The rows add up to the step.`,
		RunE: does(func(ctx context.Context, o *output) error {
			b.Notice = o.progress.Say
			var err error
			if b.Processes, err = together(cmd, in, &b.Setup); err != nil {
				return err
			}
			r, err := b.Run(ctx, func(step int, seconds float64) {
				if step == 1-b.WarmUp { // the first: every step will take about as long
					all := seconds * float64(b.Steps+b.WarmUp)
					o.progress.Begin(fmt.Sprintf("bench: %s, after %d that are discarded, %s", units.Counted(b.Steps, "step"), b.WarmUp, units.About(time.Duration(all*float64(time.Second)))), b.Steps+b.WarmUp)
				}
				o.progress.Advance("step " + units.FormatSeconds(seconds))
			})
			o.progress.End()
			if err != nil || o.follows {
				return err
			}
			if format == "json" {
				return o.json(r)
			}
			return printBench(o, r)
		}),
	}
	fs := modelFlags(cmd, &b.Model, sizedModel())
	geluFlag(fs, &b.Model)
	batchFlag(fs, &b.Batch, 32, "examples per mini-batch")
	count(fs, &b.Steps, "steps", 10, 1, train.MaxBenchSteps, "steps to time")
	count(fs, &b.WarmUp, "warmup", 2, 0, train.MaxBenchSteps, "steps before those, not timed")
	pipelineFlags(fs, &b.Setup, 1, 1)
	replicaFlags(fs, &b.Setup)
	zeroFlag(fs, &b.Setup)
	spatialFlag(fs, &b.Setup, threadsOfParts)
	tensorFlags(fs, &b.Setup, partsOfOperations)
	tiedFlag(fs, &b.Setup)
	dtypeFlag(fs, &b.Setup)
	processFlags(fs, &in)
	deviceFlags(fs, &b.Setup, "host")
	seedFlag(fs, &b.Seed, "seed of weights and data")
	fs.BoolVar(&b.ByOp, "by-op", false, "time every kernel, and compare it with this machine's roofline")
	outcomeFlags(fs, &format, "text", "json")
	return cmd
}

func printBench(o *output, r *train.Bench) error {
	var b strings.Builder
	fmt.Fprintf(&b, "step: median %s, fastest %s, of %d (%d before them discarded); closed form %s\n",
		units.FormatSeconds(r.StepSeconds.Median), units.FormatSeconds(r.StepSeconds.Min), len(r.StepSeconds.All), r.Discarded,
		units.FormatSeconds(r.ClosedForm))
	printBelow(&b, r.StepSeconds.Median, r.ClosedForm)
	fmt.Fprintf(&b, "%.4g examples/s, %s devices of %s, %s kernels", r.ExamplesPerSecond, r.Device, units.Counted(r.Threads, "thread"), r.KernelProfile)
	if r.DType != "" {
		fmt.Fprintf(&b, ", %s activations", r.DType)
	}
	b.WriteString("\n")
	printIdle(&b, r.Devices)
	printMemory(&b, r.Partition, r.Placement, r.PeakBytes, r.HighWaterBytes, r.Parts)
	if r.Note != "" {
		fmt.Fprintf(&b, "partition: %s\n", r.Note)
	}
	printProcesses(&b, r.Processes, r.Traffic)
	fmt.Fprintf(&b, "resident memory of the process, at most: %s\n", units.FormatBytes(r.MaxRSSBytes))
	if err := o.printf("%s", b.String()); err != nil || r.ByOp == nil {
		return err
	}
	return printByOp(o, r)
}

func printByOp(o *output, r *train.Bench) error {
	by, devices := r.ByOp, float64(len(r.PeakBytes))
	t := lab.Table{
		Title: "\nBy operation",
		Caption: []string{fmt.Sprintf("Means of %s of %s; sums over the devices, %s of device time a step.",
			units.Counted(len(r.StepSeconds.All), "step"), units.FormatSeconds(by.StepSeconds), units.FormatSeconds(by.StepSeconds*devices))},
		Notes: []string{
			fmt.Sprintf("The roofline of a device, measured after the steps on %s: %.4g GFLOP/s in a matrix product, %.4g GB/s in a sum of vectors.", units.Counted(by.Roof.Threads, "thread"), by.Roof.FLOPs/1e9, by.Roof.Bandwidth/1e9),
			"Of roofline: the longer of the times that a row's FLOPs and bytes take at these rates, as a share of its own time; above 100% where operands were in a cache.",
			"FLOPs count matrix products; bytes count the operands, each read or written once.",
		},
	}
	t.Texts("task", "operation")
	t.Numbers("calls", "time", "share", "MFLOP", "MB", "GFLOP/s", "GB/s", "of roofline")
	part := func(x float64, format string) lab.Value {
		if x == 0 {
			return lab.Absent
		}
		return lab.Number(format, x)
	}
	sum := train.OpRow{}
	sum.Op = "all"
	for _, row := range by.Rows {
		sum.Seconds += row.Seconds
		sum.Share += row.Share
	}
	for _, row := range append(slices.Clip(by.Rows), sum) {
		rate := 0.0
		if row.Seconds > 0 {
			rate = 1e-9 / row.Seconds
		}
		t.Add(row.Task, row.Op, part(row.Calls, "%.4g"), lab.Seconds(row.Seconds), lab.Percent(row.Share, 1),
			part(row.FLOPs/1e6, "%.1f"), part(row.Bytes/1e6, "%.1f"), part(row.FLOPs*rate, "%.1f"), part(row.Bytes*rate, "%.1f"), part(100*row.OfRoof, "%.0f%%"))
	}
	return t.Write(o.out, "text")
}
