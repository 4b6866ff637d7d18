package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/files"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/simulate"
)

func newPlan() *cobra.Command {
	var s simulate.Planning
	var format, csv string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Find the R, K, M, schedule, partition and checkpoint mode with the best modelled throughput that fits",
		Long: `Plan searches all K up to --devices, all M up to the mini-batch (powers of two, and the
largest), and all checkpoint modes; with --replicas 0 also all R with R x K up to
--devices. Layers are cut by modelled time, within the devices' memory. Each replica has
one group of every mini-batch, and M is per replica. With several schedules, or --schedule
all, it also searches these and, where they allow it, the number of chunks per device
(--chunks). With --schedule searched it constructs a schedule that fits in memory; --csv
saves it. simulate shows a plan in detail.

With --search all it searches T, K, V, M, R, ZeRO stages and recomputation together, as
used on today's clusters, by default with bf16 weights, flash attention and sequence
parallelism. The T devices of a stage are in one node, and micro-batches have one size.`,
		RunE: does(func(ctx context.Context, o *output) error {
			if err := checkOutputs(nil, [2]string{"csv", csv}); err != nil {
				return err
			}
			r, err := s.Run(ctx, o.progress)
			if err == nil && csv != "" && len(r.Plans) > 0 {
				err = files.Write(csv, r.Plans[0].CSV)
			}
			if err != nil {
				return err
			}
			if format == "json" {
				err = o.json(r)
			} else if len(r.Plans) > 0 {
				err = printPlan(o, &s, r, format)
			}
			if err == nil && len(r.Plans) == 0 {
				err = nothingFits(r, s.Devices)
			}
			return err
		}),
	}
	fs := modelFlags(cmd, &s.Model, sizedModel())
	acceleratorFlags(fs, &s.Simulating)
	count(fs, &s.Devices, "devices", 8, 1, gpipe.MaxTasks, "largest number of devices")
	count(fs, &s.Replicas, "replicas", 1, 0, gpipe.MaxReplicas, "data-parallel copies of the pipeline, R; each has K devices. 0: searched")
	scopeFlag(fs, &s.Setup, "")
	spatialFlag(fs, &s.Setup, acceleratorsOfParts)
	allReduceFlags(fs, &s.Simulating, "links between replicas; torus: X x Y replicas, for --all-reduce 2d, whose default is the squarest torus of each R")
	batchFlag(fs, &s.Batch, 32, "examples per mini-batch")
	count(fs, &s.MaxBatch, "max-batch", 0, 0, gpipe.MaxExamples, "largest mini-batch, reached by doubling; 0: --batch")
	value(fs, &s.Search, "search", "", "NAME,NAME...", "what to search besides K and M: tensor, replicas, zero, recompute; all: these, and the schedules 1f1b and interleaved", simulate.ParseSearch)
	var orders string
	fs.StringVar(&orders, "schedule", "gpipe", "schedules to search among, NAME,NAME...: "+strings.Join(schedule.Names(), ", ")+", all; also "+strings.Join(schedule.AsynchronousNames(), ", ")+", with --window; searched: one constructed for the tasks' times and the devices' memory")
	windowFlag(fs, &s.Window)
	seedFlag(fs, &s.Seed, "seed of searched schedules")
	fileFlag(fs, &csv, "csv", "file for the best plan's schedule in PyTorch's format, which --schedule of other commands reads", ".csv")
	count(fs, &s.Chunks, "chunks", 0, 0, 64, "model chunks per device, V, for interleaved; 0: searched among 2, 4, ...")
	fs.BoolVar(&s.Setup.LateRecompute, "late-recompute", false, "recompute only after the gradient has arrived; otherwise one micro-batch ahead")
	optimizerFlag(fs, &s.Optimizer)
	number(fs, &s.Model.Dropout, "dropout", 0, rates, "rate, from 0 up to 1")
	count(fs, &s.Keep, "top", 5, 1, 1000, "number of plans to show")
	outcomeFlags(fs, &format, lab.Formats...)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if s.MaxBatch > 0 && s.MaxBatch < s.Batch {
			return fmt.Errorf("--max-batch %d: want %d, the mini-batch, or more", s.MaxBatch, s.Batch)
		}
		if err := forClusters(cmd, &s, &orders); err != nil {
			return err
		}
		if err := parseSchedules(&s, orders); err != nil {
			return fmt.Errorf("--schedule %s: %w", orders, err)
		}
		if i := slices.IndexFunc(s.Schedules, schedule.Schedule.Asynchronous); i >= 0 && csv != "" {
			return fmt.Errorf("--csv with %v: PyTorch's files cannot express updates within the task lists: want synchronous schedules", s.Schedules[i])
		}
		if fs.Changed("seed") && !s.Searched {
			return errors.New("--seed: want searched among --schedule")
		}
		if s.Chunks > 0 && !slices.Contains(s.Schedules, schedule.Interleaved) {
			return fmt.Errorf("--chunks %d: want interleaved among --schedule, since the other schedules fix the number", s.Chunks)
		}
		return ownFlags(cmd, &s.Model)
	}
	return cmd
}

// forClusters sets what is not said of a search for today's clusters.
func forClusters(cmd *cobra.Command, s *simulate.Planning, orders *string) error {
	fs := cmd.Flags()
	searched := map[string]bool{"tensor": s.Search.Tensor, "zero": s.Search.Zero, "recompute": s.Search.Recompute}
	for _, name := range slices.Sorted(maps.Keys(searched)) {
		if searched[name] && !s.Search.All && fs.Changed(name) {
			return fmt.Errorf("--%s, and --search %s: want one of them", name, name)
		}
	}
	if s.Search.Replicas {
		s.Replicas = 0
	}
	if !s.Search.All {
		return nil
	}
	s.Search.Tensor, s.Search.Zero, s.Search.Recompute = !fs.Changed("tensor"), !fs.Changed("zero"), !fs.Changed("recompute")
	if !fs.Changed("replicas") {
		s.Replicas = 0
	}
	if !fs.Changed("precision") {
		s.Precision = gpipe.BF16Weights
	}
	if device, err := s.Device(); err == nil && device.Accelerator.Kernels != nil && !fs.Changed("attention") { // Run returns the error
		s.Attention = gpipe.FlashAttention
	}
	if !fs.Changed("sequence-parallel") {
		s.SequenceParallel = true
	}
	if !fs.Changed("schedule") {
		*orders = "1f1b,interleaved"
	}
	return nil
}

// parseSchedules sets what to search among: schedules by name, all of them, and searched.
func parseSchedules(p *simulate.Planning, names string) error {
	var each []string
	for _, name := range strings.Split(names, ",") {
		if name == "all" {
			each = append(each, schedule.Names()...)
		} else {
			each = append(each, name)
		}
	}
	p.Schedules = []schedule.Schedule{}
	for _, name := range each {
		s, err := schedule.Parse(name)
		switch {
		case name == "searched" && !p.Searched:
			p.Searched = true
		case name == "searched" || err == nil && slices.Contains(p.Schedules, s):
			return fmt.Errorf("%s twice: want each once", name)
		case err != nil:
			return fmt.Errorf("%w, all, searched, or several of them", err)
		default:
			p.Schedules = append(p.Schedules, s)
		}
	}
	return nil
}

// nothingFits returns an error that says by how much.
func nothingFits(r *simulate.Plan, devices int) error {
	if r.Nearest == nil {
		return fmt.Errorf("%d parameters and their optimizer state do not fit %d x %s under any plan: want more or larger devices", r.Params, devices, r.Accelerator)
	}
	n, replicas := r.Nearest, ""
	if n.R > 1 {
		replicas = fmt.Sprintf("replicas %d, ", n.R)
	}
	if n.T > 1 {
		replicas += fmt.Sprintf("tensor %d, ", n.T)
	}
	return fmt.Errorf("no plan fits %d x %s: the closest (%sk %d, m %d, batch %d, %s, checkpoint %s) lacks %s on a device: want more devices, a smaller mini-batch, or --dtype bf16 and --accounting paper",
		devices, r.Accelerator, replicas, n.K, n.M, n.Batch, n.Schedule, n.Checkpoint, units.FormatBytes(n.LacksBytes))
}

func printPlan(o *output, s *simulate.Planning, r *simulate.Plan, format string) error {
	replicas, schedules, ways := s.Replicas != 1, !slices.Equal(s.Schedules, []schedule.Schedule{schedule.GPipe}) || s.Searched, "K, M and mini-batch"
	cluster := s.OnCluster()
	if schedules {
		ways = "K, M, mini-batch and schedule"
	}
	if replicas {
		ways = "R, " + ways
	}
	if cluster {
		ways = "T, ZeRO, recomputation, " + ways
	}
	t := lab.Table{
		Title: fmt.Sprintf("%s: %d parameters on up to %d x %s", s.Model.Name, r.Params, s.Devices, r.Accelerator),
		Notes: []string{fmt.Sprintf("Simulated %d of %d candidates (%s): %d of the others cannot fit, and %d cannot beat these, by a lower bound on their tasks' times.",
			r.Simulated, r.Simulated+r.Dismissed+r.Unfit, ways, r.Unfit, r.Dismissed)},
	}
	of := "examples"
	if r.Plans[0].TokensPerSecond > 0 {
		of = "tokens"
	}
	t.Numbers(of+"/s", "a device", "TFLOP/s", "MFU", "causal", "HFU")
	if s.Tokens > 0 {
		t.Numbers("days")
	}
	t.Numbers("step")
	if replicas {
		t.Numbers("all-reduce", "R")
	}
	if cluster {
		t.Numbers("T")
	}
	t.Numbers("K", "M", "batch")
	if schedules {
		t.Texts("schedule")
		t.Numbers("V")
	}
	if cluster {
		t.Numbers("ZeRO")
		t.Texts("recompute")
	} else {
		t.Texts("checkpoint")
	}
	t.Numbers("fullest device", "bubble")
	t.Texts("cut by", "layers")
	for _, c := range r.Plans {
		rate := c.ExamplesPerSecondPerDevice
		if of == "tokens" {
			rate = c.TokensPerSecondPerDevice
		}
		var row []any
		for _, v := range []float64{rate * float64(c.Accelerators), rate, c.TFLOPsPerDevice} {
			row = append(row, lab.Number(fourDigits(v), v))
		}
		row = append(row, lab.Share(c.MFU, 1), lab.Share(c.CausalMFU, 1), lab.Share(c.HFU, 1))
		if s.Tokens > 0 {
			row = append(row, lab.Number("%.3g", c.Days))
		}
		row = append(row, lab.Seconds(c.StepSeconds))
		if replicas {
			row = append(row, lab.Seconds(c.ReduceSeconds), c.R)
		}
		if cluster {
			row = append(row, c.T)
		}
		row = append(row, c.K, c.M, c.Batch)
		if schedules {
			row = append(row, c.Schedule, c.Chunks)
		}
		recomputes := c.Checkpoint
		if cluster {
			row = append(row, c.Zero)
			if c.Recompute != gpipe.RecomputeStage.String() {
				recomputes = c.Recompute
			}
		}
		t.Add(append(row, recomputes, lab.Bytes(c.PeakBytes), lab.Share(c.BubbleFraction, 1), c.PartitionBy, short(c.Partition))...)
	}
	t.Notes = append(t.Notes, "The best plan's fullest device: "+memoryByKind(r.Plans[0].Memory)+".",
		"A device: rate per device. TFLOP/s: model FLOPs per device. MFU: their share of the peak; causal: counting half of causal attention; HFU: also counting recomputation.")
	return t.Write(o.out, format)
}

// fourDigits is the format of a number above 0 with four digits, or all before the point.
func fourDigits(v float64) string {
	if v >= 1000 {
		return "%.0f"
	}
	return "%#.4g"
}

// short returns sizes as text, runs of equal ones as 13 x 127.
func short(sizes []int) string {
	if len(sizes) <= 16 {
		return fmt.Sprint(sizes)
	}
	text := ""
	for i := 0; i < len(sizes); {
		j := i
		for j < len(sizes) && sizes[j] == sizes[i] {
			j++
		}
		if text != "" {
			text += " "
		}
		if text += strconv.Itoa(sizes[i]); j-i > 1 {
			text += fmt.Sprintf(" x %d", j-i)
		}
		i = j
	}
	return "[" + text + "]"
}
