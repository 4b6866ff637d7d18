package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/failure"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
)

// Processes are those that an engine has started to run a training or a benchmark together,
// as one of them sees them. All have the same settings; the one of rank 0 writes files.
type Processes struct {
	ByStage bool // consecutive places are by stage, then replica; otherwise by replica, then stage
	MPI     bool // messages of MPI in place of sockets, whose mpirun has started the processes
	// Facts are what must be the same in all processes, besides the content of files of data,
	// weights and schedules.
	Facts []sockets.Fact

	world  cluster.World
	spread cluster.Spread
	own    Process      // this process; its measures are taken at the end
	end    *sockets.End // nil: it did not come to that
	mpi    *mpi.World   // nil: sockets connect the processes, or it did not come to that
}

// ElsewhereError is an error that another process prints.
type ElsewhereError struct{ error }

func (e *ElsewhereError) Unwrap() error { return e.error }

// Find returns the processes that the environment tells of, each with some of a setup's places;
// nil if this one is alone.
func (p Processes) Find(s *Setup) (*Processes, error) {
	var err error
	if p.MPI {
		p.world, err = cluster.Ranks()
		if err == nil && p.world.Launcher == "" {
			err = failure.Usagef("--transport mpi: no engine has started this process: want mpirun -n P gpipebench, with the mpirun of %s", mpi.Implementation)
		}
	} else {
		p.world, err = cluster.FromEnvironment()
	}
	if err != nil || p.world.Alone() {
		return nil, err // of this process's environment, which others need not have
	}
	p.spread = cluster.Spread{Replicas: max(s.Replicas, 1), Stages: s.Partitions, Processes: p.world.Size, ByStage: p.ByStage}
	if err := p.spread.Validate(); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	p.own = Process{Rank: p.world.Rank, Host: host, Places: p.spread.Of(p.world.Rank)}
	return &p, err
}

// Connect connects this process with the others. data and tasks are digests of the data and
// of the weights to begin with, and of the schedule's file, which must be the same in all
// processes; "": there are none.
func (p *Processes) Connect(ctx context.Context, data, tasks string) (_ transport.Transport, err error) {
	w := p.world
	c := sockets.Config{
		Rank: w.Rank, Size: w.Size, Address: w.Address, Listener: w.Listener, Secret: w.Secret, Limit: w.Limit,
		Owner: p.spread.Owner, Where: p.spread.Of,
		Facts: append(slices.Clip(p.Facts), sockets.Fact{Name: "content of data or weights", Value: data}, sockets.Fact{Name: "content of the schedule's file", Value: tasks}),
	}
	if p.MPI {
		if p.mpi, err = mpi.Join(ctx, w.Limit); err != nil {
			return nil, err
		}
		if rank, size := p.mpi.Rank(), p.mpi.Size(); rank != w.Rank || size != w.Size { // MPI must know the same processes as the environment
			return nil, failure.Usagef("%s started this process as rank %d of %d, but for %s it is rank %d of %d: want the mpirun of the MPI that this program was built with", w.Launcher, w.Rank, w.Size, mpi.Implementation, rank, size)
		}
		c.Network, c.Address = p.mpi, mpi.Address
	}
	if p.end, err = sockets.Connect(ctx, c); err != nil {
		return nil, err
	}
	return p.end, nil
}

// Leave ends this process's part, with an error or nil, and returns what it has to print, or an
// *[ElsewhereError]. With nil processes it returns the error.
func (p *Processes) Leave(err error) error {
	switch {
	case p == nil || err == nil && p.end == nil:
		return err
	case err == nil:
		err = p.end.Close()
		if p.mpi != nil {
			err = cmp.Or(err, p.mpi.Close())
		}
		return err
	case p.end != nil:
		p.end.Fail(err)
	}
	if p.mpi != nil {
		p.mpi.Leave()
	}
	says := p.says(err)
	if p.world.EndsAll && p.world.Rank > 0 && (p.end == nil || !says) { // who says why ends first, or would be ended before
		time.Sleep(2 * time.Second) // also if this process itself was told to end
	}
	if !says {
		return &ElsewhereError{err}
	}
	return err
}

// says reports whether this process prints an error: rank 0, or the lowest that is left.
func (p *Processes) says(err error) bool {
	if p.end == nil {
		var refused *sockets.Refusal
		return !errors.As(err, &refused)
	}
	var gone *transport.PeerError
	var link *transport.LinkError
	without0 := errors.As(err, &gone) && gone.Rank == 0 || errors.As(err, &link) && min(link.From, link.To) == 0
	return p.world.Rank == 0 || p.world.Rank == 1 && without0
}

// Process is one of the processes that ran something together.
type Process struct {
	Rank        int    `json:"rank"`
	Host        string `json:"host"`
	Places      string `json:"places"`        // what it ran, such as "replica 1"
	MaxRSSBytes int64  `json:"max_rss_bytes"` // 0 if unknown
	// ClockWithin is how far its clock may be from that of rank 0, in seconds, after they
	// were compared for the timeline.
	ClockWithin float64 `json:"clock_within_seconds"`
}

// follows reports whether another process writes the files.
func (p *Processes) follows() bool { return p != nil && p.own.Rank > 0 }

// join connects the pipeline with other processes, if there are any.
func (p *Processes) join(ctx context.Context, s Setup, to *gpipe.Pipeline, data string) (err error) {
	if p == nil {
		return nil
	}
	if s.Cost == Time && s.Balance == nil && s.Partitions > 1 {
		return failure.Usagef("layers cannot be balanced by their times in several processes, since each would measure other times: want flops or memory, or the layers of each partition")
	}
	if s.Device != gpipe.Host {
		return failure.Usagef("%v devices in several processes: want host devices, or one process, since their tasks are timed one at a time", s.Device)
	}
	tasks, err := digestOf(s.ScheduleFile, scheduleFile)
	if err == nil {
		to.Transport, err = p.Connect(ctx, data, tasks)
	}
	return err
}

// gather returns all processes of a trainer; nil if there is one.
func (p *Processes) gather(ctx context.Context, t *gpipe.Trainer, over transport.Transport) ([]Process, error) {
	if p == nil {
		return nil, nil
	}
	own := p.own
	own.MaxRSSBytes = machine.MaxRSS()
	if c, ok := over.(transport.Clocked); ok {
		_, within := c.Clock()
		own.ClockWithin = within.Seconds()
	}
	message, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	messages, err := t.Exchange(ctx, message)
	if err != nil {
		return nil, fmt.Errorf("exchanging the usage of processes: %w", err)
	}
	all := make([]Process, len(messages))
	for i, m := range messages {
		if err := json.Unmarshal(m, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Travelled is what processes sent each other in a step, of one kind of tensors.
type Travelled struct {
	What         string  `json:"what"` // as gpipe.Load names it
	Messages     int64   `json:"messages"`
	Bytes        int64   `json:"bytes"`
	PlannedBytes int64   `json:"planned_bytes"`
	Seconds      float64 `json:"seconds"` // of taking the bytes in, added up over receivers; the median of the steps
}

// traffic is what steps on mini-batches of one size sent from process to process, the
// bytes those of the last, of a window an even part; nil if there is one process or no step.
func (p *Processes) traffic(steps []*gpipe.Result, over transport.Transport) []Travelled {
	if p == nil || len(steps) == 0 {
		return nil
	}
	crossing := func(all []gpipe.Traffic, what gpipe.Load) (sum gpipe.Traffic) {
		for _, t := range all {
			if t.What == what && over.Owner(t.From) != over.Owner(t.To) {
				sum.Messages, sum.Bytes, sum.Seconds = sum.Messages+t.Messages, sum.Bytes+t.Bytes, sum.Seconds+t.Seconds
			}
		}
		return sum
	}
	last := steps[len(steps)-1]
	var all []Travelled
	for what := range gpipe.Loads {
		sent, planned := crossing(last.Traffic, what), crossing(last.PlannedTraffic(), what)
		var seconds []float64
		for _, step := range steps {
			seconds = append(seconds, crossing(step.Traffic, what).Seconds)
		}
		window := int64(max(last.Times.Window, 1))
		all = append(all, Travelled{what.String(), sent.Messages / window, sent.Bytes / window, planned.Bytes / window, stats.Median(seconds) / float64(window)})
	}
	return slices.DeleteFunc(all, func(t Travelled) bool { return t.Messages == 0 && t.PlannedBytes == 0 })
}
