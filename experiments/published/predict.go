package published

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/failure"
	"gpipebench/nn/graph"
	"gpipebench/simulate"
	"gpipebench/train"
)

// Predicted is what the model says of a row's training.
type Predicted struct {
	Seconds float64         `json:"seconds"`    // of a step
	Bytes   int64           `json:"peak_bytes"` // of the fullest device
	Parts   gpipe.StepParts `json:"parts"`      // of Seconds
	Figures string          `json:"figures"`    // digest of the accelerator's
}

// of is what a row's value is compared with.
func (p Predicted) of(what string) float64 {
	if what == peakBytes {
		return float64(p.Bytes)
	}
	return p.Seconds
}

// later are the frameworks whose collectives run beside computing and whose attention is fused.
var later = []string{"torchtitan", "Megatron-Bridge", "nanotron", "MegaScale", "NeMo"}

// isLater reports whether a row's framework is one of later, or must be as new, since it trains with
// SwiGLU or on devices that came after fused attention (Hopper and newer, by their peak).
func (t *Tables) isLater(r *Row) bool {
	return slices.Contains(later, r.Framework) || r.MLP == "swiglu" || t.device(r.Device).peak("bf16") > hopper
}

// hopper is a peak in 1e12 FLOP/s of 16 bits that only devices of that generation and newer have.
const hopper = 600

// timetables are what the schedules of rows are called here. The schedules of the zero-bubble paper
// within one and two times the memory of 1F1B come from its own scheduler; ZB-H1 and ZB-H2 are those
// that it prints for these amounts.
var timetables = map[string]string{"zb-1p": "zb-h1", "zb-2p": "zb-h2", "dualpipe": "dualpipe-v"}

// simulating is a row's training as simulate runs it. Every choice is from the row, or from its
// framework: none from what was measured.
func (t *Tables) simulating(table *Table, row *Row) (s simulate.Simulating, err error) {
	r := table.assuming(*row)
	order, chunks, err := r.order()
	if err != nil {
		return s, err
	}
	// GPT's of Megatron-LM have dropouts by default, and what they are trained with later has none.
	isLater := t.isLater(&r)
	dropout := r.MLP == "gelu" && !isLater
	micro := max(1, (r.Batch+r.Replicas*r.Micro-1)/(r.Replicas*r.Micro))
	// Devices that divide the tokens of a sequence hold and add up weights as replicas do. Their attention
	// sees their own tokens alone, which is too short.
	seq, replicas := max(1, r.Seq/r.Context), r.Replicas*r.Context
	s = simulate.Simulating{
		Model: train.Model{
			Name: "transformer-lm", Layers: r.Layers, Dim: r.Hidden, FF: multiple(r.FF, r.Tensor), Heads: r.heads(), Seq: seq,
			Vocab: multiple(r.Vocab, r.Tensor), FinalNorm: true, GELU: r.MLP == "gelu",
		},
		Setup: train.Setup{
			Partitions: r.Pipeline, Chunks: chunks, MicroBatches: micro, Replicas: replicas, Schedule: order,
			Checkpoint: schedule.Never, Balance: balance(r.Layers, r.Pipeline*chunks),
		},
		Batch: micro * replicas * r.Micro, Optimizer: "adam", DType: graph.BF16, Accounting: gpipe.FullAccounting,
		Parallel: gpipe.Parallel{
			Tensor: r.Tensor, SequenceParallel: *r.Sequence && r.Tensor > 1, Zero: *r.ZeRO, Precision: gpipe.BF16Weights,
			WideGradients: strings.Contains(r.Optimizer, "fp32 gradients"),
			Attention:     gpipe.UnfusedAttention, DropScores: dropout, Scatter: r.Variant != "no scatter/gather", AwaitTransfers: true, TensorOverNodes: true,
			// Products that accumulate came to Megatron-LM after the SC21 paper, and not to its offspring.
			GradientsApart: strings.Contains(r.Framework, "DeepSpeed") || strings.HasPrefix(r.Source, "sc21:"),
		},
	}
	if dropout {
		s.Model.Dropout = 0.1
	}
	if *r.Tied {
		s.Model.Tied = "softmax"
	}
	if r.MLP == "swiglu" || r.MLP == "geglu" {
		s.Model.Name, s.Model.KVHeads, s.Model.FinalNorm = "llama", r.KVHeads, false // which it always has
	}
	if strings.Contains(r.Variant, "eager") { // each operation is a kernel
		s.Fused = "off"
	}
	switch r.Precision {
	case "fp16":
		s.Parallel.Precision = gpipe.FP16Weights
	case "fp32":
		s.Parallel.Precision, s.DType = gpipe.F32Weights, graph.F32
	}
	s.Parallel.Recompute, err = gpipe.ParseRecompute(r.Recompute)
	if err != nil {
		return s, err
	}
	if isLater {
		s.Parallel.Attention, s.Parallel.Overlap, s.Parallel.AwaitTransfers = gpipe.FlashAttention, true, false
	}
	device, node := t.device(r.Device), t.node(r.Node)
	s.Accelerator = nearest(device)
	s.Change = device.change
	own, err := accelerator.Named(s.Accelerator)
	if err != nil {
		return s, err
	}
	inNode := own.Far.Devices
	if node != nil { // what the file does not state is the accelerator's own
		inNode = cmp.Or(node.Devices, inNode)
		s.Parallel.Near.Bandwidth, s.Parallel.Far.Bandwidth = giga*node.LinkGB, giga*node.FarGB
	}
	for inNode > 1 && inNode%r.Tensor != 0 && r.Tensor%inNode != 0 { // of a node that parts do not fill, the rest is idle
		inNode--
	}
	s.Parallel.NodeDevices = inNode
	return s, nil
}

// order is the schedule, and how many chunks each stage has of it.
func (r Row) order() (schedule.Schedule, int, error) {
	name, chunks := cmp.Or(timetables[r.Schedule], r.Schedule), r.Chunks
	switch {
	case r.Pipeline == 1:
		name, chunks = "1f1b", 1
	case name == "dualpipe-v" || name == "zb-v" || name == "v-half" || name == "v-min":
		chunks = 2
	case chunks > 1:
		name = "interleaved"
	case name == "interleaved":
		name = "1f1b"
	}
	order, err := schedule.Parse(name)
	return order, chunks, err
}

// heads is the number of heads, or the next one that the tensor parts can divide.
func (r Row) heads() int {
	for n := r.Heads; n <= r.Hidden; n++ {
		if n%r.Tensor == 0 && r.Hidden%n == 0 {
			return n
		}
	}
	return r.Heads
}

// multiple is the least multiple of parts that is not below n.
func multiple(n, parts int) int { return (n + parts - 1) / parts * parts }

// balance is how many layers, with embedding and softmax, each of some pieces has: as many layers in
// each if they can be divided, otherwise if embedding and softmax count as layers, and otherwise as even
// as may be, the fewest in the last.
func balance(layers, pieces int) []int {
	sizes := make([]int, pieces)
	all := layers
	ends := layers%pieces != 0 && (layers+2)%pieces == 0
	if ends {
		all += 2
	}
	for i := range sizes {
		sizes[i] = (i+1)*all/pieces - i*all/pieces
	}
	slices.SortStableFunc(sizes, func(a, b int) int { return b - a })
	if !ends {
		sizes[0]++
		sizes[pieces-1]++
	}
	return sizes
}

// nearest is the accelerator of the program with a device's name, or the one whose efficiencies stand
// for it: of the same generation, as far as its peak says.
func nearest(d *Device) string {
	names := accelerator.Names()
	if slices.Contains(names, d.ID) {
		return d.ID
	}
	switch peak := d.peak("bf16"); {
	case peak < 200:
		return "v100-32g"
	case peak < hopper:
		return "a100-80g"
	}
	return "h100"
}

// peak is a device's, of a precision, in 1e12 FLOP/s. Types of 16 bits have one peak.
func (d *Device) peak(precision string) float64 {
	switch precision {
	case "fp16":
		return cmp.Or(d.PeakTFLOPS["fp16"], d.PeakTFLOPS["bf16"])
	case "bf16":
		return cmp.Or(d.PeakTFLOPS["bf16"], d.PeakTFLOPS["fp16"])
	}
	return d.PeakTFLOPS[precision]
}

const giga, tera = 1e9, 1e12

// change gives an accelerator a device's own figures.
func (d *Device) change(a *accelerator.Accelerator) {
	a.BF16, a.F32 = cmp.Or(tera*d.peak("bf16"), a.BF16), cmp.Or(tera*d.peak("fp32"), a.F32)
	a.Bandwidth = cmp.Or(giga*d.MemoryGBs, a.Bandwidth)
	a.Memory = cmp.Or(int64(giga*d.MemoryGB), a.Memory)
}

// predict models a row's training, on its accelerator with a change; nil: none. A defect is an error of
// this row alone.
func (t *Tables) predict(ctx context.Context, table *Table, row *Row, change func(*accelerator.Accelerator)) (p Predicted, err error) {
	defer failure.Catch(&err)
	s, err := t.simulating(table, row)
	if err != nil {
		return p, err
	}
	s.Change = accelerator.Then(s.Change, change)
	again := []gpipe.Recompute{s.Parallel.Recompute}
	if again[0] == gpipe.RecomputeSelective && row.Framework == "torchtitan" {
		// Its choice of operators computes every second product again, and no attention: half of all.
		again = []gpipe.Recompute{gpipe.RecomputeNone, gpipe.RecomputeFull}
	}
	all, err := predicted(ctx, s, again...)
	if err != nil {
		return p, err
	}
	if p = all[0]; len(all) > 1 {
		p = halfway(p, all[1])
	}
	p.Figures, err = figures(s.Accelerator)
	return p, err
}

// halfway is the mean of two predictions.
func halfway(a, b Predicted) Predicted {
	p, q := a.Parts, b.Parts
	return Predicted{Seconds: (a.Seconds + b.Seconds) / 2, Bytes: (a.Bytes + b.Bytes) / 2, Parts: gpipe.StepParts{
		Computing: (p.Computing + q.Computing) / 2, Recomputed: (p.Recomputed + q.Recomputed) / 2, Tensor: (p.Tensor + q.Tensor) / 2,
		Pipeline: (p.Pipeline + q.Pipeline) / 2, Bubble: (p.Bubble + q.Bubble) / 2, Replicas: (p.Replicas + q.Replicas) / 2, Optimizer: (p.Optimizer + q.Optimizer) / 2,
	}}
}

// predicted simulates a training with each recomputation.
func predicted(ctx context.Context, s simulate.Simulating, again ...gpipe.Recompute) (all []Predicted, err error) {
	runs, err := s.Each(ctx, again...)
	if err != nil && s.Setup.Schedule == schedule.Interleaved { // which some numbers of micro-batches have not
		s.Setup.Schedule, s.Setup.Chunks, s.Setup.Balance = schedule.OneFOneB, 1, balance(s.Model.Layers, s.Setup.Partitions)
		runs, err = s.Each(ctx, again...)
	}
	for _, r := range runs {
		p := Predicted{Seconds: r.StepSeconds, Bytes: r.Fullest(), Parts: r.Parts}
		if s.Setup.Schedule == schedule.ZBH1 || s.Setup.Schedule == schedule.ZBH2 {
			saved := unsynchronised(r.Step.Timeline)
			p.Seconds, p.Parts.Bubble = p.Seconds-saved, p.Parts.Bubble-saved
		}
		all = append(all, p)
	}
	return all, err
}

// unsynchronised is by how much a step is shorter, in seconds, whose devices begin the next one without
// waiting for the others: each repeats after the time from its own first task to the end of its last. The
// zero-bubble schedules validate the update later for this (Qi et al., arXiv 2401.10241, section 4).
func unsynchronised(tl *timeline.Timeline) float64 {
	first, last := map[int]float64{}, map[int]float64{}
	longest, begin, end := 0.0, math.Inf(1), 0.0
	for e := range tl.OnDevices() {
		if !e.Kind.Task() {
			continue
		}
		device := tl.Device(e.At)
		if from, ok := first[device]; !ok || e.Start < from {
			first[device] = e.Start
		}
		last[device] = max(last[device], e.End)
		begin, end = min(begin, e.Start), max(end, e.End)
	}
	for device, from := range first {
		longest = max(longest, last[device]-from)
	}
	return end - begin - longest
}
