package gpipe

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"gpipebench/gpipe/plan"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// load copies micro-batch m's part of the mini-batch into the bound input slot.
func (r *chunkRun) load(st *program.Stage, m int) {
	b := r.batches[r.mini(m)].Slice(r.Firsts[m], r.Firsts[m]+r.Sizes[m])
	if r.piece == 0 {
		r.fill(st.In, b.Inputs)
	}
	r.fill(st.Feeds, b.Targets)
}

func (r *chunkRun) fill(places []program.Tensor, tensors []nn.Tensor) {
	for i, p := range places {
		r.touch(program.In, p.End())
		if p.DType == graph.I32 {
			dst := r.bind[program.In][p.Off:p.End()]
			copy(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)), tensors[i].I32)
		} else {
			p.Fill(r.bind[program.In], tensors[i].F32)
		}
	}
}

// score is what the last stage's outputs say of a group's examples.
type score struct {
	Loss    float64 // the sum
	Correct float64
	Ranks   []float32
}

// collect takes the last stage's outputs for micro-batch m: predictions, or losses,
// which are added up in example order within each group.
func (r *chunkRun) collect(st *program.Stage, m int) error {
	out := r.bind[program.Out]
	if r.purpose == plan.Predicting {
		made := views(out, st.Out)
		if len(r.trainer.peers) == 1 {
			r.predicted.Lock() // by one replica at a time
			defer r.predicted.Unlock()
			return r.each(r.Firsts[m], made)
		}
		for i := range made { // to be reported
			made[i].F32 = slices.Clone(made[i].F32)
		}
		r.outputs = append(r.outputs, made)
		return nil
	}
	rows := st.Out[0].Floats(out)
	score := &r.scores[r.GroupOf(m)]
	before := score.Loss
	for _, v := range rows {
		score.Loss += float64(v)
	}
	if r.purpose == plan.Evaluating && r.trainer.net.Replicas > 1 {
		r.rows = append(r.rows, rows...) // to be added up in example order over all replicas
	}
	if len(st.Out) > 1 {
		for _, v := range st.Out[1].Floats(out) {
			score.Correct += float64(v)
		}
	}
	if len(st.Out) > 2 {
		score.Ranks = append(score.Ranks, st.Out[2].Floats(out)...)
	}
	if !r.trainer.net.AllowNonFinite && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0)) {
		return &lossError{r.at.Replica, m, float32(score.Loss - before)}
	}
	return nil
}

// views are the tensors in a slot; those of bfloat16 are copies.
func views(slot []float32, places []program.Tensor) []nn.Tensor {
	var ts []nn.Tensor
	for _, p := range places {
		ts = append(ts, nn.Tensor{Shape: slices.Clone(p.Shape), F32: p.Floats(slot)})
	}
	return ts
}

// lossError stops a step whose loss is not finite; explain finds its origin.
type lossError struct {
	Replica, Micro int
	Value          float32
}

func (e *lossError) Error() string { return fmt.Sprintf("the loss is %v", e.Value) }
