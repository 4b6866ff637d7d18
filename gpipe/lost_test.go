package gpipe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// mortal is a process's end of the transport that dies where dies says so.
type mortal struct {
	*transport.Channels
	dies func(doing string) bool
}

func (m mortal) Begin() transport.Session { return mortalSession{m.Channels.Begin(), m} }

type mortalSession struct {
	transport.Session
	mortal
}

func (s mortalSession) at(doing string) {
	if s.dies(doing) {
		s.Close()
	}
}

func (s mortalSession) Send(ctx context.Context, to transport.Route, tensors [][]float32) error {
	s.at("send " + to.What.String())
	return s.Session.Send(ctx, to, tensors)
}

func (s mortalSession) Receive(ctx context.Context, from transport.Route, dst [][]float32, arrived func()) error {
	s.at("receive " + from.What.String())
	return s.Session.Receive(ctx, from, dst, arrived)
}

func (s mortalSession) Gather(ctx context.Context, from place.Place, among []place.Place, message []byte) ([][]byte, error) {
	s.at("gather")
	return s.Session.Gather(ctx, from, among, message)
}

// A process that dies in any part of a step, in an evaluation, in a prediction or while the
// state is copied ends that in all others, which name it. What they do later fails, too.
func TestLostInEachPhase(t *testing.T) {
	spread := cluster.Spread{Replicas: 2, Stages: 2, Processes: 4}
	batch := small.data(0)
	step := func(tr *Trainer) error { _, err := tr.Step(context.Background(), batch); return err }
	evaluate := func(tr *Trainer) error { _, err := tr.Evaluate(context.Background(), batch); return err }
	predict := func(tr *Trainer) error { _, err := tr.Predict(context.Background(), batch.Inputs...); return err }
	copying := func(tr *Trainer) error { _, err := tr.State(nil); return err }
	for _, c := range []struct {
		name   string
		run    func(tr *Trainer) error
		doing  string
		victim int
	}{
		{"forward", step, "send activation", 0},
		{"forward", step, "receive activation", 3},
		{"backward", step, "send gradient", 3},
		{"backward", step, "receive gradient", 0},
		{"tied gradients", step, "send tied gradient", 3},
		{"reduction", step, "send group gradient", 3},
		{"reduction", step, "receive group gradient", 0},
		{"norms", step, "gather", 1},
		{"evaluation", evaluate, "send activation", 2},
		{"evaluation", evaluate, "gather", 0},
		{"prediction", predict, "receive activation", 1},
		{"snapshot", copying, "gather", 0},
		{"snapshot", copying, "gather", 3},
	} {
		t.Run(c.name+", "+c.doing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				armed := false
				var died atomic.Bool
				ps := &processes{ends: transport.Ends(spread.Processes, spread.Owner)}
				for rank, end := range ps.ends {
					p := small.pipeline(t)
					p.MicroBatches, p.Replicas, p.Partitions, p.ShardUpdate, p.EMA = 2, spread.Replicas, spread.Stages, true, nn.EMA{Decay: 0.9}
					p.Transport = end
					if rank == c.victim {
						p.Transport = mortal{end, func(doing string) bool {
							if armed && doing == c.doing {
								died.Store(true)
							}
							return died.Load()
						}}
					}
					ps.trainers = append(ps.trainers, openedForAll(t, p, InputOf(batch)))
				}
				named := func(what string, run func(tr *Trainer) error) {
					ps.all(func(rank int, tr *Trainer) {
						err := run(tr)
						var gone *transport.PeerError
						if rank != c.victim && (!errors.As(err, &gone) || gone.Rank != c.victim) {
							t.Errorf("%s: rank %d: %v, want rank %d gone", what, rank, err, c.victim)
						}
					})
				}
				ps.all(func(rank int, tr *Trainer) {
					testkit.Equal(t, step(tr), nil, "before: rank %d", rank)
				})
				armed = true
				named("then", c.run)
				if !died.Load() {
					t.Errorf("%s never comes", c.doing)
				}
				named("the next step", step)
			})
		})
	}
}
