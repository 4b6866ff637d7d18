//go:build unix

package gpipe

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// overcommitted trains one step with a capacity that is not compared with the plan.
func overcommitted(t *testing.T, p Pipeline, capacity int64, in Input, b nn.Batch) (hash string, err error) {
	t.Helper()
	for i := range p.Devices {
		p.Devices[i].Capacity, p.Devices[i].Overcommit = capacity, true
	}
	tr, err := p.Open(in)
	if err != nil {
		return "", err
	}
	defer tr.Close()
	if _, err := tr.Step(t.Context(), b); err != nil {
		return "", err
	}
	return tr.Hash(), nil
}

// TestPlansAreNeitherTimidNorBold: at every capacity, page by page (under -short each fourth),
// a run that the plan refuses runs out of memory if the plan is not consulted, and a run that it
// accepts trains to the same bits.
func TestPlansAreNeitherTimidNorBold(t *testing.T) {
	testkit.NotRaced(t)
	page := int64(os.Getpagesize())
	for _, c := range []struct {
		stages, micro, threads int
		checkpoint             schedule.Checkpoint
		replicas               int
	}{{1, 1, 1, schedule.Never, 1}, {1, 3, 2, schedule.Always, 1}, {3, 4, 1, schedule.Always, 1}, {2, 3, 2, schedule.Never, 1}, {2, 3, 1, schedule.Always, 3}} {
		defer transporttest.NoneLeft(t)()
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches, p.Checkpoint, p.Replicas = c.stages, c.micro, c.checkpoint, c.replicas
		p.Devices = []Device{{Threads: c.threads}}
		b := small.data(0)
		in := InputOf(b)
		free, err := p.Plans(in)
		if err != nil || free.OutOfMemory != nil {
			t.Fatal(err, free.OutOfMemory)
		}
		var most int64
		for _, plan := range free.Plans {
			most = max(most, plan.Peak)
		}
		tr := must(p.Open(in))(t)
		stepped(t, tr, b)
		want := tr.Hash()
		tr.Close()
		refused, step := 0, page
		if testing.Short() {
			step = 4 * page
		}
		for capacity := page; capacity < most+2*page; capacity += step {
			p.Devices = []Device{{Threads: c.threads, Capacity: capacity}}
			planned := must(p.Plans(in))(t)
			hash, err := overcommitted(t, p, capacity, in, b)
			if planned.OutOfMemory == nil {
				if err != nil || hash != want {
					t.Errorf("%+v, %d bytes: accepted for a peak of %d, and hash %.8s, %v; want %.8s", c, capacity, most, hash, err, want)
				}
				continue
			}
			refused++
			var oom *OutOfMemoryError
			if !errors.As(err, &oom) {
				t.Errorf("%+v, %d bytes: refused (%v) and yet trained: %v", c, capacity, planned.OutOfMemory, err)
				continue
			}
			plan := planned.Plans[oom.Device]
			if oom.Capacity != capacity || oom.Wanted != plan.Bytes[oom.Category] || oom.Wanted <= oom.Free || oom.Layer == "" || plan.Peak <= capacity {
				t.Errorf("%+v, %d bytes: %+v", c, capacity, oom)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has more than one line: %v", err)
			}
		}
		if refused == 0 || want == "" {
			t.Errorf("%+v: nothing was refused below a peak of %d", c, most)
		}
	}
}

// A fault within the capacity, and a panic that is no fault, do not become
// out-of-memory errors.
func TestOnlyTheWallIsOutOfMemory(t *testing.T) {
	p := small.pipeline(t)
	p.Devices = []Device{{Capacity: 1 << 24, Overcommit: true}}
	tr := opened(t, p, InputOf(small.data(0)))
	d := tr.devices[0]
	begin := d.mem.walled
	for _, v := range []any{"boom", errors.New("boom"), addressed{0}, addressed{addressOf(&begin[0])}, addressed{addressOf(&begin[1<<22-1])}} {
		testkit.Equal(t, d.overrun(v, "here"), nil, "%v became", v)
	}
}

type addressed struct{ at uintptr }

func (a addressed) Error() string { return "a fault" }
func (a addressed) Addr() uintptr { return a.at }
