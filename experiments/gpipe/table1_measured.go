package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/gpipe"
	"gpipebench/lab/cells"
	"gpipebench/nn"
)

// measuredWay is what fits by the plan, trained in a way on devices of this host, and
// what training showed.
type measuredWay struct {
	Candidate candidate                 `json:"candidate"` // the largest that fits
	Params    int64                     `json:"params"`
	Micro     int                       `json:"micro"` // the largest micro-batch with which it fits
	M         int                       `json:"m"`
	Borders   []cells.Border[candidate] `json:"borders"`
	Trained   []trainedStep             `json:"trained"` // both sides of every border
}

// trainedStep is one training step, or how it failed, without a check of the plan: the
// devices' capacity is a wall.
type trainedStep struct {
	candidate `json:",inline"`
	Params    int64   `json:"params"`
	M         int     `json:"m"`
	Accepted  bool    `json:"accepted"`          // by the plan
	Refusal   string  `json:"refusal,omitempty"` // or else why not
	Peak      []int64 `json:"peak"`              // planned, by device
	Partition []int   `json:"partition"`
	OK        bool    `json:"ok"`                   // it trained
	Loss      float64 `json:"loss,omitempty"`       // of the step
	HighWater []int64 `json:"high_water,omitempty"` // reached, by device
	Error     string  `json:"error,omitempty"`      // out of memory at run time
	Seconds   float64 `json:"seconds"`
}

// hosted trains networks of a grid on devices of this host.
type hosted struct {
	miniature
	optimizer nn.Optimizer
	lr        float64
	seed      uint64
	cuts      *cuts
}

// way finds the borders, and trains on both sides of them.
func (h *hosted) way(ctx context.Context, w way) (*measuredWay, error) {
	least, err := h.leastMicro(w)
	if err != nil {
		return nil, err
	}
	out := &measuredWay{}
	none := func([]candidate) int { return -1 }
	out.Borders, out.Candidate, out.Params, err = h.cuts.borders(h.Model, w.rows(h.Grid, h.Model), none, func(c candidate) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		return h.fits(w, c, least)
	})
	if err != nil {
		return nil, err
	}
	for _, b := range out.Borders {
		for _, c := range []candidate{b.Fits, b.Not} {
			if c.none() {
				continue
			}
			micro := least
			if c == b.Fits {
				micro, err = largestMicro(h.Batch, least, func(size int) (bool, error) { return h.fits(w, c, size) })
				if err != nil {
					return nil, err
				}
			}
			step, err := h.train(ctx, w, c, micro)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", c, err)
			}
			if c == out.Candidate {
				out.Micro, out.M = micro, step.M
			}
			out.Trained = append(out.Trained, *step)
		}
	}
	return out, nil
}

// pipeline is a candidate's, on devices that have the capacity.
func (h *hosted) pipeline(w way, c candidate, micro int) (gpipe.Pipeline, error) {
	m := c.of(h.Model)
	balance, err := h.cuts.balance(m, w.K)
	if err != nil {
		return gpipe.Pipeline{}, err
	}
	p, err := w.pipeline(m, balance, h.Batch, micro, h.optimizer)
	p.Seed, p.LR = h.seed, nn.ConstantLR(h.lr)
	p.Devices = []gpipe.Device{{Capacity: int64(h.Capacity)}}
	return p, err
}

// fits reports whether, by the plan, every device holds its part.
func (h *hosted) fits(w way, c candidate, micro int) (bool, error) {
	p, err := h.pipeline(w, c, micro)
	if err != nil {
		return false, err
	}
	planned, err := p.Plans(h.Model.Input(h.Batch))
	return err == nil && planned.OutOfMemory == nil, err
}

// leastMicro is the smallest micro-batch that the network can be trained with:
// one, unless that leaves a batch norm a single value.
func (h *hosted) leastMicro(w way) (int, error) {
	if w.Naive {
		return h.Batch, nil
	}
	smallest := w.rows(h.Grid, h.Model)[0][0]
	var first error
	for size := 1; size <= h.Batch; size *= 2 {
		_, err := h.fits(w, smallest, size)
		if err == nil {
			return size, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, first
}

// train runs one step without a check of the plan. Running out of memory is an
// outcome, not an error.
func (h *hosted) train(ctx context.Context, w way, c candidate, micro int) (*trainedStep, error) {
	p, err := h.pipeline(w, c, micro)
	if err != nil {
		return nil, err
	}
	in := h.Model.Input(h.Batch)
	planned, err := p.Plans(in)
	if err != nil {
		return nil, err
	}
	out := &trainedStep{candidate: c, M: p.MicroBatches, Partition: planned.Sizes, Accepted: planned.OutOfMemory == nil}
	if out.Params, err = params(c.of(h.Model)); err != nil {
		return nil, err
	}
	if !out.Accepted {
		out.Refusal = planned.OutOfMemory.Error()
	}
	for _, plan := range planned.Plans {
		out.Peak = append(out.Peak, plan.Peak)
	}
	p.Devices[0].Overcommit = true
	random, err := c.of(h.Model).Random(h.Batch, h.seed)
	if err != nil {
		return nil, err
	}
	data, err := random()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	out.Loss, out.HighWater, err = oneStep(ctx, p, in, data)
	out.Seconds = time.Since(start).Seconds()
	var oom *gpipe.OutOfMemoryError
	switch {
	case err == nil:
		out.OK = true
	case errors.As(err, &oom):
		out.Error = err.Error()
	default:
		return nil, err
	}
	return out, nil
}

// oneStep opens a pipeline and trains one mini-batch.
func oneStep(ctx context.Context, p gpipe.Pipeline, in gpipe.Input, data nn.Batch) (loss float64, highWater []int64, err error) {
	trainer, err := p.Open(in)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, trainer.Close()) }()
	r, err := trainer.Step(ctx, data)
	if err != nil {
		return 0, nil, err
	}
	for k := range p.Partitions {
		_, peak := trainer.HighWater(k)
		highWater = append(highWater, peak)
	}
	return r.Loss, highWater, nil
}

// judge reports where run and plan disagree: what was accepted must have trained
// within its plan, what was refused must have run out of memory.
func (m *measuredWay) judge() error {
	var wrong []string
	for _, t := range m.Trained {
		switch {
		case t.Accepted && !t.OK:
			wrong = append(wrong, fmt.Sprintf("%v was accepted and failed: %s", t.candidate, t.Error))
		case !t.Accepted && t.OK:
			wrong = append(wrong, fmt.Sprintf("%v was refused (%s) and trained", t.candidate, t.Refusal))
		case t.OK && !slices.Equal(t.Peak, t.HighWater):
			wrong = append(wrong, fmt.Sprintf("%v was planned to reach %v bytes and reached %v", t.candidate, t.Peak, t.HighWater))
		}
	}
	for _, b := range m.Borders {
		for _, c := range []candidate{b.Fits, b.Not} {
			if !c.none() && !slices.ContainsFunc(m.Trained, func(t trainedStep) bool { return t.candidate == c && t.Accepted == (c == b.Fits) }) {
				wrong = append(wrong, fmt.Sprintf("%v was not tried", c))
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}
