package gpipe

import (
	"os"
	"sync"
	"testing"
	"time"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// connected is processes' ends of the transport that real processes use.
func connected(t *testing.T, s cluster.Spread) []*sockets.End {
	t.Helper()
	dir := must(os.MkdirTemp("", "gpipe"))(t)
	ends := make([]*sockets.End, s.Processes)
	var all sync.WaitGroup
	for rank := range ends {
		all.Go(func() {
			e, err := sockets.Connect(t.Context(), sockets.Config{
				Rank: rank, Size: s.Processes, Address: "unix:" + dir + "/run", Owner: s.Owner, Where: s.Of,
			})
			testkit.Equal(t, err, nil)
			ends[rank] = e
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, e := range ends {
			all.Go(func() {
				testkit.Equal(t, e.Close(), nil)
			})
		}
		all.Wait()
		if err := os.Remove(dir); err != nil { // which is empty
			t.Error(err)
		}
	})
	return ends
}

// Replicas and stages in processes that share nothing but sockets report the same, to
// the bit, as in one process.
func TestReplicasInProcesses(t *testing.T) {
	language := func() Pipeline {
		p := small.pipeline(t)
		p.MicroBatches, p.Groups, p.EMA, p.ClipNorm = 2, 4, nn.EMA{Decay: 0.9}, 0.5
		return p
	}
	convolutions := func() Pipeline {
		p := smallResNet.pipeline(t, false)
		p.Groups, p.EMA = 2, nn.EMA{Decay: 0.9}
		return p
	}
	gathered := func() Pipeline {
		p := language()
		p.TiedGradients = GatherTied
		return p
	}
	images := func(i int) nn.Batch { return smallResNet.data(i % 3) }
	cases := []struct {
		name     string
		spread   cluster.Spread
		shard    bool
		pipeline func() Pipeline
		data     func(i int) nn.Batch
	}{
		{"one a device", cluster.Spread{Replicas: 2, Stages: 2, Processes: 4}, false, language, small.data},
		{"by stage", cluster.Spread{Replicas: 2, Stages: 2, Processes: 2, ByStage: true}, true, language, small.data},
		{"gathered rows of stages", cluster.Spread{Replicas: 2, Stages: 2, Processes: 4}, false, gathered, small.data},
		{"one a replica", cluster.Spread{Replicas: 2, Stages: 1, Processes: 2}, false, language, small.data},
		{"divided updates", cluster.Spread{Replicas: 4, Stages: 1, Processes: 2}, true, language, small.data},
		{"across", cluster.Spread{Replicas: 2, Stages: 3, Processes: 3}, false, language, small.data},
		{"gathered rows", cluster.Spread{Replicas: 4, Stages: 1, Processes: 4}, false, gathered, small.data},
		{"batch norm", cluster.Spread{Replicas: 2, Stages: 2, Processes: 3}, false, convolutions, images},
	}
	if testing.Short() {
		cases = cases[:3]
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			open := func(p Pipeline) *Trainer {
				p.Replicas, p.Partitions, p.ShardUpdate = c.spread.Replicas, c.spread.Stages, c.shard
				return openedForAll(t, p, InputOf(c.data(0)))
			}
			want := history(t, open(c.pipeline()), c.data, t.TempDir())
			ps := &processes{}
			for _, end := range connected(t, c.spread) {
				p := c.pipeline()
				p.Transport = end
				ps.trainers = append(ps.trainers, open(p))
			}
			dir := t.TempDir()
			testkit.Equal(t, said(t, ps, "history", func(tr *Trainer) string { return history(t, tr, c.data, dir) }), want, "in processes")
		})
	}
}

// clocked is a transport of a process whose clock is behind that of rank 0.
type clocked struct {
	*transport.Channels
	behind time.Duration
}

func (c clocked) Clock() (offset, within time.Duration) { return c.behind, 0 }

// A step's timeline is on rank 0's clock in every process.
func TestTimelineOfProcesses(t *testing.T) {
	ps := &processes{}
	for rank, end := range transport.Ends(2, func(p place.Place) int { return p.Stage }) {
		p := small.pipeline(t)
		p.Partitions, p.Transport = 2, clocked{end, time.Duration(rank) * time.Hour}
		ps.trainers = append(ps.trainers, opened(t, p, InputOf(small.data(0))))
	}
	ps.all(func(rank int, tr *Trainer) {
		r, err := tr.Step(t.Context(), small.data(0))
		if err != nil {
			t.Error(err)
			return
		}
		for _, e := range r.Timeline.Events {
			of := e.At.Stage
			if e.Kind == timeline.Transfer { // as its receiver has it
				of = e.Peer.Stage
			}
			testkit.Equal(t, e.Start > 1800, of == 1, "rank %d: %v of stage %d begins after %v s", rank, e.Kind, of, e.Start)
		}
	})
}

// Only what a process lacks is sent to it when weights are asked for.
func TestWeightsTravel(t *testing.T) {
	for _, c := range []struct {
		spread cluster.Spread
		travel bool
	}{
		{cluster.Spread{Replicas: 2, Stages: 2, Processes: 2}, false},
		{cluster.Spread{Replicas: 2, Stages: 2, Processes: 4}, true},
	} {
		ps := &processes{}
		ends := connected(t, c.spread)
		for _, end := range ends {
			p := small.pipeline(t)
			p.Replicas, p.Partitions, p.Transport = 2, 2, end
			tr := opened(t, p, InputOf(small.data(0)))
			ps.trainers = append(ps.trainers, tr)
			if stagesEverywhere(tr) == c.travel {
				t.Errorf("%+v: rank %d lacks a stage: %v", c.spread, end.Rank(), !c.travel)
			}
		}
		if hash := said(t, ps, "hash", (*Trainer).Hash); len(hash) != 64 {
			t.Errorf("%+v: hash %q", c.spread, hash)
		}
	}
}
