package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/units"
	"gpipebench/simulate"
	"gpipebench/train"
)

func newSimulate() *cobra.Command {
	var s simulate.Simulating
	var trace, memory string
	var format string
	var shown bool
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Plan and time a step on modelled accelerators, at any scale",
		Long: `Simulate compiles the programs that a training run would use, plans every device's
memory, and replays a step with each operation's time taken from a roofline model. Rates
are published shares of the peak rates where the accelerator's file has them, with --peak
the peak rates. No values are computed.`,
		RunE: does(func(ctx context.Context, o *output) error {
			if err := checkOutputs(nil, [2]string{"trace", trace}, [2]string{"memory", memory}); err != nil {
				return err
			}
			r, err := s.Run(ctx)
			if err != nil {
				return err
			}
			if err := writeTimeline(trace, r.Step.Timeline); err != nil {
				return err
			}
			if memory != "" {
				if err := writeMemory(memory, r); err != nil {
					return err
				}
			}
			if format == "json" {
				return o.json(r)
			}
			if err := printSimulation(o, r, s.Tokens); err != nil || !shown {
				return err
			}
			return draw.WriteText(o.out, r.Step.Timeline, o.width)
		}),
	}
	fs := modelFlags(cmd, &s.Model, sizedModel())
	acceleratorFlags(fs, &s)
	batchFlag(fs, &s.Batch, 32, "examples per mini-batch")
	pipelineFlags(fs, &s.Setup, 1, 1)
	replicaFlags(fs, &s.Setup)
	spatialFlag(fs, &s.Setup, acceleratorsOfParts)
	allReduceFlags(fs, &s, "links between replicas; --all-reduce 2d needs a torus with X x Y = R")
	fs.Lookup("cost").Usage = "what the cut balances; time: each layer's modelled time"
	optimizerFlag(fs, &s.Optimizer)
	number(fs, &s.Model.Dropout, "dropout", 0, rates, "rate, from 0 up to 1")
	traceFlag(fs, &trace, "the")
	fileFlag(fs, &memory, "memory", "file for a plot of each device's memory over the step, .svg", ".svg")
	fs.BoolVar(&shown, "timeline", false, "draw the step's timeline")
	outcomeFlags(fs, &format, "text", "json")
	return cmd
}

// allReduceFlags adds the flags of sums over replicas.
func allReduceFlags(fs *pflag.FlagSet, s *simulate.Simulating, topology string) {
	value(fs, &s.AllReduce, "all-reduce", "tree", "tree|ring|2d", "how the replicas' gradients are summed; tree: recursive halving and doubling", reduction.ParseKind)
	value(fs, &s.Torus, "topology", "flat", "flat|torus:XxY", topology, parseTopology)
}

// acceleratorFlags adds the flags of the modelled devices, and of what counts.
func acceleratorFlags(fs *pflag.FlagSet, s *simulate.Simulating) {
	fs.StringVar(&s.Accelerator, "device", "tpuv3", "accelerator: "+strings.Join(accelerator.Names(), ", ")+", or a YAML file that describes one")
	value(fs, &s.Setup.MemoryCap, "memory-cap", "", "bytes", "memory of each device, such as 60GiB to leave a quarter of 80GiB free (default: from the device's file)", units.ParseBytes)
	value(fs, &s.DType, "dtype", "bf16", "bf16|f32", "type of activations", train.ParseDType)
	value(fs, &s.Accounting, "accounting", "full", "full|paper", "what counts as peak memory; full: everything. paper, as in GPipe's Table 1: parameters, optimizer state and activations, but not gradients", gpipe.ParseAccounting)
	value(fs, &s.Fused, "fused", "file", "file|on|off", "whether the device's compiler fuses element-wise operations; file: as its file says", simulate.ParseSwitch)
	value(fs, &s.Tiled, "tiled", "file", "file|on|off", "whether activations in memory are padded to the device's lanes; file: as its file says", simulate.ParseSwitch)
	fs.BoolVar(&s.Peak, "peak", false, "run everything at peak rates; otherwise at the measured shares of the peak in the device's file")
	value(fs, &s.Tokens, "tokens", "", "count", "tokens to train on, such as 300B or 2T (image networks: examples); prints how many days this takes", units.ParseCount)
	fs.BoolVar(&s.KeepScores, "keep-scores", false, "keep attention probabilities for the backward pass; otherwise they are recomputed")
	clusterFlags(fs, s)
}

// clusterFlags adds the flags of what today's frameworks have beside K and M, and of the cluster.
// Any of them makes replicas alike, and what a device holds that of its precision.
func clusterFlags(fs *pflag.FlagSet, s *simulate.Simulating) {
	p := &s.Parallel
	count(fs, &p.Tensor, "tensor", 0, 0, gpipe.MaxParts, "tensor-parallel devices per stage, T; 0: one. As in Megatron-LM; for transformer-lm and llama")
	fs.BoolVar(&p.SequenceParallel, "sequence-parallel", false, "split by tokens what the T devices do not split otherwise")
	count(fs, &p.Zero, "zero", 0, 0, 3, "ZeRO stage, what replicas shard; 1: optimiser state, 2: gradients too, 3: weights too (FSDP)")
	value(fs, &p.Recompute, "recompute", "stage", "stage|none|selective|full", "what the backward pass recomputes; stage: as --checkpoint says, selective: the core of attention, full: each layer, one at a time", gpipe.ParseRecompute)
	value(fs, &p.Precision, "precision", "f32", "f32|bf16|fp16|fp8", "type of weights; types below 32 bits also keep float32 master copies. fp8: only matrix products, with bf16 weights", gpipe.ParsePrecision)
	value(fs, &p.Attention, "attention", "ours", "ours|unfused|flash", "how attention is computed; unfused: with scores in memory. Devices whose files have no kernels support only ours", gpipe.ParseAttention)
	fs.BoolVar(&p.DropScores, "drop-scores", false, "apply dropout to attention probabilities, with --attention unfused")
	fs.BoolVar(&p.Scatter, "scatter", false, "each of the T devices sends its share of a stage's output to another node, where the shares are gathered")
	fs.BoolVar(&p.AwaitTransfers, "await-transfers", false, "devices wait for transfers between stages instead of computing meanwhile")
	fs.BoolVar(&p.GradientsApart, "gradients-apart", false, "add weight gradients to their accumulators in separate operations")
	fs.BoolVar(&p.Overlap, "overlap", false, "overlap the reduction of gradients with the backward pass, as far as it fits")
	value(fs, &p.Order, "order", "tp-dp-pp", "tp-dp-pp|tp-pp-dp", "order in which devices are assigned; tp-dp-pp (Megatron-LM's): the T devices of a stage, then replicas, then stages", gpipe.ParseOrder)
	count(fs, &p.NodeDevices, "node-devices", 0, 0, gpipe.MaxTasks, "devices per node, connected by the near link; 0: from the device's file")
	bandwidth(fs, &p.Near.Bandwidth, "near-bandwidth", "bandwidth of a device's link within its node in bytes per second, such as 300GB (default: from the device's file)")
	bandwidth(fs, &p.Far.Bandwidth, "far-bandwidth", "bandwidth of a device's link to other nodes in bytes per second, such as 25GB (default: from the device's file)")
	fs.BoolVar(&p.TensorOverNodes, "tensor-over-nodes", false, "allow the T devices of a stage to span several nodes")
	geluFlag(fs, &s.Model)
}

// parseTopology reads flat, the zero value, or torus:XxY.
func parseTopology(s string) (torus [2]int, err error) {
	if s == "flat" {
		return torus, nil
	}
	x, y, _ := strings.Cut(strings.TrimPrefix(s, "torus:"), "x")
	for i, side := range []string{x, y} {
		if torus[i], err = strconv.Atoi(side); err != nil || torus[i] < 1 || torus[i] > gpipe.MaxReplicas || !strings.HasPrefix(s, "torus:") {
			return [2]int{}, fmt.Errorf("want flat, or a torus such as torus:32x32")
		}
	}
	return torus, nil
}

func optimizerFlag(fs *pflag.FlagSet, to *string) {
	value(fs, to, "optimizer", "adam", strings.Join(train.Optimizers(), "|"), "optimiser, whose state counts as parameter memory", optimizerName)
}

func printSimulation(o *output, r *simulate.Simulation, tokens float64) error {
	var b strings.Builder
	rates := "at measured rates"
	if r.Peak {
		rates = "at peak rates, which real devices do not reach,"
	}
	stages := len(r.Partition)
	if r.Placement != nil { // several pieces on each
		stages = slices.Max(r.Placement) + 1
	}
	devices := strconv.Itoa(stages)
	if parts := r.Accelerators / (r.Replicas * stages); parts > 1 {
		devices += fmt.Sprintf(" x %d", parts)
	}
	if r.Replicas > 1 {
		devices = fmt.Sprintf("%d x %s", r.Replicas, devices)
	}
	fmt.Fprintf(&b, "%d parameters on %s x %s %s: step %s, %.4g examples/s\n",
		r.Params, devices, r.Accelerator, rates, units.FormatSeconds(r.StepSeconds), r.ExamplesPerSecond)
	b.WriteString(metricsLines(r.Metrics, tokens))
	p, tensor := r.Breakdown, 0.0
	if c := r.Parts; c != (gpipe.StepParts{}) { // on a cluster, whose tasks recompute and communicate within themselves
		p.Computation, p.Recompute, p.Communication, p.Reduction, tensor = c.Computing-c.Recomputed, c.Recomputed, c.Pipeline, c.Replicas, c.Tensor
	}
	var parts []string
	for _, part := range []struct {
		name    string
		seconds float64
	}{
		{"computation", p.Computation}, {"recompute", p.Recompute}, {"bubble", p.Bubble}, {"imbalance", p.Imbalance},
		{"communication", p.Communication}, {"setup", p.Setup}, {"barrier cost", p.Barrier}, {"update", p.Update},
		{"reduction", p.Reduction}, {"sums of parts", tensor},
	} {
		if part.seconds == 0 && (part.name == "reduction" || part.name == "sums of parts") {
			continue // one group, and one device a stage
		}
		parts = append(parts, part.name+" "+units.FormatShare(part.seconds, r.StepSeconds))
	}
	fmt.Fprintf(&b, "%s; classic bubble %s\n", strings.Join(parts, ", "), units.FormatShare(r.ClassicBubble, 1))
	if p.Imbalance < -0.0005*r.StepSeconds {
		why := "in this order of tasks"
		if r.Breakdown.Recompute > 0 {
			why += ", since early stages recompute while they are idle in any case"
		}
		fmt.Fprintf(&b, "  a negative imbalance: equal stages would wait longer %s\n", why)
	}
	most := slices.MaxFunc(r.Devices, func(a, b simulate.SimulatedDevice) int { return int(a.PeakBytes - b.PeakBytes) })
	var params, activations int64 // of one replica, and one part of each stage
	for _, d := range r.Devices[:stages] {
		params += d.ParamBytes
		activations += d.ActivationBytes
	}
	fits := "Fits"
	if !r.Fits {
		fits = "Does NOT fit"
	}
	but := ""
	if r.Accounting != gpipe.FullAccounting.String() {
		but = "; gradients are not counted, see --accounting"
	}
	fmt.Fprintf(&b, "%s: the fullest device takes %s of %s (one device of each stage: weights and optimizer state %s, %s activations %s%s)\n",
		fits, units.FormatBytes(most.PeakBytes), units.FormatBytes(most.Capacity), units.FormatBytes(params), r.DType, units.FormatBytes(activations), but)
	fmt.Fprintf(&b, "  of the fullest: %s\n", memoryByKind(most.Memory))
	for k, d := range r.Devices {
		if !d.Fits {
			fmt.Fprintf(&b, "device %d (%s to %s) lacks %s: parameters with optimizer state %s, boundary stash %s, residuals %s, workspace %s",
				k, d.FirstLayer, d.LastLayer, units.FormatBytes(d.PeakBytes-d.Capacity), units.FormatBytes(d.ParamBytes),
				units.FormatBytes(d.BoundaryBytes), units.FormatBytes(d.ResidualBytes), units.FormatBytes(d.WorkspaceBytes))
			if r.Accounting == gpipe.FullAccounting.String() { // what counts, and nothing else
				fmt.Fprintf(&b, ", gradients %s", units.FormatBytes(d.GradientBytes))
			}
			b.WriteString("\n")
		}
	}
	if r.Window > 0 {
		var versions, stale []string
		for _, d := range r.Devices {
			versions, stale = append(versions, strconv.Itoa(d.Versions)), append(stale, strconv.Itoa(d.Staleness))
		}
		fmt.Fprintf(&b, "in windows of %d mini-batches; versions of the weights on each device: %s; staleness, in updates: %s\n", r.Window, strings.Join(versions, " "), strings.Join(stale, " "))
	}
	fmt.Fprintf(&b, "partition %s\n", short(r.Partition))
	if r.Note != "" {
		fmt.Fprintf(&b, "partition: %s\n", r.Note)
	}
	return o.printf("%s", b.String())
}

// metricsLines are a step's metrics in words; tokens are those to train on, 0 if that is not known.
func metricsLines(m simulate.Metrics, tokens float64) string {
	of, rate := "examples", m.ExamplesPerSecondPerDevice
	text := ""
	if m.TokensPerSecond > 0 {
		of, rate = "tokens", m.TokensPerSecondPerDevice
		text = fmt.Sprintf(fourDigits(m.TokensPerSecond)+" tokens/s, ", m.TokensPerSecond)
	}
	text += fmt.Sprintf(fourDigits(rate)+" %s/s a device; model FLOPs %.4g of %.4g TFLOP/s a device: MFU %s, with causal attention halved %s; HFU %s\n",
		rate, of, m.TFLOPsPerDevice, m.PeakTFLOPs, units.FormatShare(m.MFU, 1), units.FormatShare(m.CausalMFU, 1), units.FormatShare(m.HFU, 1))
	if m.Days > 0 {
		text += fmt.Sprintf("%s %s take %.3g days\n", units.FormatCount(int64(tokens)), of, m.Days)
	}
	return text
}

// memoryByKind is what a device holds, in words.
func memoryByKind(m gpipe.DeviceMemory) string {
	return fmt.Sprintf("weights %s, gradients %s, optimizer state %s, activations %s, workspace %s", units.FormatBytes(m.Weights), units.FormatBytes(m.Gradients),
		units.FormatBytes(m.State), units.FormatBytes(m.Activations), units.FormatBytes(m.Workspace))
}
