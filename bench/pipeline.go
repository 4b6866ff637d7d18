package main

import (
	"context"
	"fmt"

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
		var of []float64
		for i := range one.seconds {
			of = append(of, ideal/median(one.seconds)*one.seconds[i]/two.seconds[i])
		}
		fmt.Printf("  checkpoint %-11v K=1 %.4f s  K=2 %.4f s  speed-up %.3f  closed form %.4f s (%.3f)  reached %.3f of it\n",
			c, median(one.seconds), median(two.seconds), median(one.seconds)/median(two.seconds), ideal, median(one.seconds)/ideal, median(of))
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
	fmt.Printf("  real %.4f s  emulated %.4f s  ratio %.3f\n", median(real.seconds), replay.Span(), replay.Span()/median(real.seconds))
	fmt.Printf("  of the difference: the same tasks beside each other take %.3f of their time alone; replaying these gives %.4f s, %.3f of the real step\n",
		sum(together)/sum(alone), shared.Span(), shared.Span()/median(real.seconds))
	return nil
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
	fmt.Printf("  never %.4f s  always %.4f s  ratio %.3f\n", median(never.seconds), median(always.seconds), median(always.seconds)/median(never.seconds))
	return nil
}
