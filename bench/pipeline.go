package main

import (
	"context"
	"fmt"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/train"
)

// even is a Transformer whose halves cost the same: a vocabulary so small that
// embedding and softmax do not count.
var even = train.Training{
	Model: train.Model{Name: train.LanguageModel, Layers: 8, Dim: 256, FF: 1024, Heads: 8, Vocab: 64, Seq: 128},
	Setup: train.Setup{MicroBatches: 16},
	Batch: 32, Optimizer: "momentum", LR: 0.01, LRSchedule: "constant",
}

// way is a way to run it: the micro-batches, of two examples each, are divided over the
// replicas.
type way struct {
	k, replicas int
	kind        gpipe.Kind
	checkpoint  schedule.Checkpoint
	divided     bool // the update, over the replicas
}

// side is what the steps of one way took.
type side struct {
	times   gpipe.Samples
	seconds []float64
}

// inTurns measures two ways one after the other, round after round.
func (b *bench) inTurns(ways [2]way) (sides [2]side, err error) {
	ctx := context.Background()
	var timing train.Timing
	var loops [2]*train.Loop
	for i, w := range ways {
		t := even
		t.Setup.Partitions, t.Setup.Device, t.Setup.Checkpoint = w.k, w.kind, w.checkpoint
		t.Setup.Replicas, t.Setup.ShardUpdate = w.replicas, w.divided
		t.Setup.MicroBatches /= w.replicas
		if loops[i], err = timing.Open(ctx, t); err != nil {
			return sides, err
		}
		defer loops[i].Close()
	}
	for round := range b.rounds + 1 {
		for i, l := range loops {
			step, err := l.Step(ctx)
			if err != nil {
				return sides, err
			}
			if round > 0 { // the first round warms up
				sides[i].seconds = append(sides[i].seconds, step.Seconds)
				sides[i].times.Add(step.Times)
			}
		}
	}
	return sides, nil
}

// pipeline compares two real cores with what the closed form makes of one.
func (b *bench) pipeline() error {
	for _, c := range []schedule.Checkpoint{schedule.Never, schedule.Always} {
		sides, err := b.inTurns([2]way{{k: 1, replicas: 1, checkpoint: c}, {k: 2, replicas: 1, checkpoint: c}})
		if err != nil {
			return err
		}
		one, two := sides[0], sides[1]
		t := one.times.Median().Stages[0]
		// A stage of two does half of each of the whole's tasks.
		ideal, err := schedule.StepTime(schedule.GPipe, c, false, 2, even.Setup.MicroBatches, t.F[0]/2, t.R[0]/2, t.B[0]/2)
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
	}
	return nil
}

// replicas compares two real cores with one, of the same mini-batch.
func (b *bench) replicas() error {
	for _, divided := range []bool{false, true} {
		sides, err := b.inTurns([2]way{{k: 1, replicas: 1, checkpoint: schedule.Never}, {k: 1, replicas: 2, checkpoint: schedule.Never, divided: divided}})
		if err != nil {
			return err
		}
		one, two := sides[0].seconds, sides[1].seconds
		of := ratios(one, two)
		for i := range of {
			of[i] /= 2
		}
		s := &rows.Sample{What: "update by each"}
		if divided {
			s.What = "update divided"
		}
		s.Add("R = 1", "s", one...)
		s.Add("R = 2", "s", two...)
		s.Add("of twice the throughput", "", of...)
		if err := b.add(s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) emulated() error { return b.virtual(way{k: 2, replicas: 1}) }

func (b *bench) emulatedReplicas() error { return b.virtual(way{k: 1, replicas: 2}) }

// virtual compares the virtual clock with the real one.
func (b *bench) virtual(w way) error {
	emulated := w
	emulated.kind = gpipe.Emulated
	sides, err := b.inTurns([2]way{w, emulated})
	if err != nil {
		return err
	}
	together, alone := sides[0].times.Median(), sides[1].times.Median()
	replay, err := alone.Replay()
	if err != nil {
		return err
	}
	shared, err := together.Replay()
	if err != nil {
		return err
	}
	took := stats.Median(sides[0].seconds)
	s := &rows.Sample{What: "the step", Note: "the last three say what of the difference is from tasks that run beside each other"}
	s.Add("real", "s", sides[0].seconds...)
	s.Add("emulated", "s", replay.Span())
	s.Add("ratio", "", replay.Span()/took)
	s.Add("tasks beside each other over alone", "", sum(together)/sum(alone))
	s.Add("replayed with these", "s", shared.Span())
	s.Add("ratio to real", "", shared.Span()/took)
	return b.add(s)
}

// sum returns the time of all tasks of a step.
func sum(t *gpipe.Times) (s float64) {
	for k, list := range t.Lists {
		for _, task := range list {
			s += t.Stages[k].Task(task)
		}
	}
	return s
}

// remat measures what one more forward costs.
func (b *bench) remat() error {
	sides, err := b.inTurns([2]way{{k: 1, replicas: 1, checkpoint: schedule.Never}, {k: 1, replicas: 1, checkpoint: schedule.Always}})
	if err != nil {
		return err
	}
	s := &rows.Sample{What: "the step"}
	s.Add("never", "s", sides[0].seconds...)
	s.Add("always", "s", sides[1].seconds...)
	s.Add("ratio", "", stats.Median(sides[1].seconds)/stats.Median(sides[0].seconds))
	return b.add(s)
}
