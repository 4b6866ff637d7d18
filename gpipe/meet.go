package gpipe

import (
	"context"
	"time"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/nn/program"
)

// Replicas whose batch norms take their statistics together meet in the middle of F and
// B. The first of them adds up the values of all in ascending order, which makes one
// chain whatever arrives first, and hands the sum to the others.
//
// No stage waits for ever. All replicas have the same lists, and meet in the order of
// their tasks, so a meeting adds no wait to those of a pipeline with one replica; what
// would wait in a circle there is found before anything runs. On emulated devices, where
// one task runs at a time, a task that waits at a meeting lets others run.

// meet adds up a value of a task over the replicas, and notes how long it took.
func (r *chunkRun) meet(ctx context.Context, t schedule.Task, m program.Meeting) error {
	arrived := time.Now()
	met := clock.Meeting{At: (arrived.Sub(r.began) - r.away).Seconds(), Bytes: bytesOf([][]float32{m.Sum})}
	defer func() {
		now := time.Now()
		r.away += now.Sub(arrived)
		r.meetings = append(r.meetings, met)
		r.record(r.at, timeline.Meet, t.Micro, arrived, now)
	}()
	if a := r.trainer.alone; a != nil {
		<-a
		defer func() { a <- struct{}{} }()
	}
	return r.addOver(ctx, m, &met.Seconds)
}

// addOver adds up a value over the replicas. Seconds grows by the time of its copies and
// additions here.
func (r *chunkRun) addOver(ctx context.Context, m program.Meeting, seconds *float64) error {
	self := r.at.Replica
	first, end := r.trainer.net.ScopeOf(self)
	route := func(from, to int) transport.Route {
		return transport.Route{
			From: r.trainer.net.Pieces.At(from, r.piece), To: r.trainer.net.Pieces.At(to, r.piece),
			What: transport.Statistics, Index: r.met,
		}
	}
	defer func() { r.met++ }()
	receive := func(from int, into []float32) error {
		began, err := r.takeIn(ctx, route(from, self), SharedStatistics, [][]float32{into})
		if err == nil {
			*seconds += time.Since(began).Seconds()
		}
		return err
	}
	if self != first {
		if err := r.session.Send(ctx, route(self, first), [][]float32{m.Sum}); err != nil {
			return err
		}
		return receive(first, m.Sum)
	}
	for from := first + 1; from < end; from++ {
		if err := receive(from, m.Other); err != nil {
			return err
		}
		*seconds += r.aloneFor(func() { m.Add(m.Sum, m.Other) })
	}
	for to := first + 1; to < end; to++ {
		if err := r.session.Send(ctx, route(first, to), [][]float32{m.Sum}); err != nil {
			return err
		}
	}
	return nil
}

// aloneFor runs f, which is no task, and returns its seconds. On emulated devices no task
// runs meanwhile.
func (r *stageRun) aloneFor(f func()) float64 {
	if a := r.trainer.alone; a != nil {
		a <- struct{}{}
		defer func() { <-a }()
	}
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}
