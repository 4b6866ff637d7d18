package main

import (
	"context"
	"fmt"

	"gpipebench/bench/rows"
	"gpipebench/experiments/stats"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// even is a Transformer whose halves cost the same: a vocabulary so small that
// embedding and softmax do not count.
var even = transformer.Config{Layers: 8, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 64, SeqLen: 128}

const evenBatch, evenMicro = 32, 16

// side is one way to run it, measured in turns with others.
type side struct {
	*gpipe.Trainer
	times   gpipe.Samples
	seconds []float64
}

func openEven(k int, kind gpipe.Kind, c schedule.Checkpoint) (*side, error) {
	layers, err := transformer.LM(even)
	if err != nil {
		return nil, err
	}
	p := gpipe.Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{}, Partitions: k, MicroBatches: evenMicro, Checkpoint: c,
		Devices:   []gpipe.Device{{Kind: kind}},
		Optimizer: nn.SGD{Momentum: 0.9}, LR: nn.ConstantLR(0.01),
	}
	t, err := p.Open(gpipe.InputOf(evenData()))
	if err != nil {
		return nil, err
	}
	return &side{Trainer: t}, nil
}

func evenData() nn.Batch {
	n := evenBatch * even.SeqLen
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i * 31 % even.Vocab)
	}
	t := nn.Tensor{Shape: []int{evenBatch, even.SeqLen}, I32: ids}
	return nn.Batch{Inputs: []nn.Tensor{t}, Targets: []nn.Tensor{t}, Count: n}
}

func (s *side) measure(keep bool) error {
	r, err := s.Step(context.Background(), evenData())
	if err == nil && keep {
		s.seconds = append(s.seconds, r.Seconds)
		s.times.Add(r.Times)
	}
	return err
}

// inTurns measures the sides one after another, round after round.
func (b *bench) inTurns(sides ...*side) error {
	for i := range b.rounds + 1 {
		for _, s := range sides {
			if err := s.measure(i > 0); err != nil { // the first round warms up
				return err
			}
		}
	}
	return nil
}

// pipeline compares two real cores with what the closed form makes of one.
func (b *bench) pipeline() error {
	for _, c := range []schedule.Checkpoint{schedule.Never, schedule.Always} {
		one, err := openEven(1, gpipe.Host, c)
		if err != nil {
			return err
		}
		two, err := openEven(2, gpipe.Host, c)
		if err != nil {
			return err
		}
		if err := b.inTurns(one, two); err != nil {
			return err
		}
		sizes := gpipe.MicroBatchSizes(evenBatch, evenMicro)
		t := one.times.Median(sizes).Stages[0]
		// A stage of two does half of each of the whole's tasks.
		ideal, err := schedule.StepTime(schedule.GPipe, c, false, 2, evenMicro, t.F[0]/2, t.R[0]/2, t.B[0]/2)
		if err != nil {
			return err
		}
		ideal += (t.Setup + t.Update) / 2
		of := ratios(one.seconds, two.seconds)
		for i := range of {
			of[i] *= ideal / stats.Median(one.seconds)
		}
		s := &rows.Sample{What: fmt.Sprintf("checkpoint %v", c)}
		s.Add("K = 1", "s", one.seconds...)
		s.Add("K = 2", "s", two.seconds...)
		s.Add("speed-up", "", stats.Median(one.seconds)/stats.Median(two.seconds))
		s.Add("closed form", "s", ideal)
		s.Add("reached of it", "", of...)
		if err := b.add(s); err != nil {
			return err
		}
		one.Close()
		two.Close()
	}
	return nil
}

// emulated compares the virtual clock with the real one.
func (b *bench) emulated() error {
	real, err := openEven(2, gpipe.Host, schedule.Always)
	if err != nil {
		return err
	}
	defer real.Close()
	emulated, err := openEven(2, gpipe.Emulated, schedule.Always)
	if err != nil {
		return err
	}
	defer emulated.Close()
	if err := b.inTurns(real, emulated); err != nil {
		return err
	}
	sizes := gpipe.MicroBatchSizes(evenBatch, evenMicro)
	alone, together := emulated.times.Median(sizes), real.times.Median(sizes)
	replay, err := alone.Replay()
	if err != nil {
		return err
	}
	shared, err := together.Replay()
	if err != nil {
		return err
	}
	took := stats.Median(real.seconds)
	s := &rows.Sample{What: "the step", Note: "the last three say what of the difference is from tasks that run beside each other"}
	s.Add("real", "s", real.seconds...)
	s.Add("emulated", "s", replay.Span())
	s.Add("ratio", "", replay.Span()/took)
	s.Add("tasks beside each other over alone", "", sum(together)/sum(alone))
	s.Add("replayed with these", "s", shared.Span())
	s.Add("ratio to real", "", shared.Span()/took)
	return b.add(s)
}

// sum is the time of all tasks of a step.
func sum(t *gpipe.Times) (s float64) {
	for k, list := range t.Lists {
		for _, task := range list {
			s += t.Stages[k].Task(task)
		}
	}
	return s
}

// remat is what one more forward costs.
func (b *bench) remat() error {
	never, err := openEven(1, gpipe.Host, schedule.Never)
	if err != nil {
		return err
	}
	defer never.Close()
	always, err := openEven(1, gpipe.Host, schedule.Always)
	if err != nil {
		return err
	}
	defer always.Close()
	if err := b.inTurns(never, always); err != nil {
		return err
	}
	s := &rows.Sample{What: "the step"}
	s.Add("never", "s", never.seconds...)
	s.Add("always", "s", always.seconds...)
	s.Add("ratio", "", stats.Median(always.seconds)/stats.Median(never.seconds))
	return b.add(s)
}
