package gpipe

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// guarded maps n floats that end right before a protected page. With short > 0 the
// last short floats lie on that page.
func guarded(t testing.TB, n, short int) []float32 {
	page := os.Getpagesize()
	room := ((n-short)*4 + page - 1) / page * page
	mem := must(syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	noError(t, syscall.Mprotect(mem[room:], syscall.PROT_NONE))
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[room-(n-short)*4])), n)
}

// guardedRun trains on b with every category of every device in a mapping of exactly the
// planned bytes, or of a float less if it is short.
func guardedRun(t *testing.T, p Pipeline, b nn.Batch, short func(c Category) bool) error {
	var mu sync.Mutex
	p.testing.panicOnFault = true
	p.testing.allocate = func(c Category, n int) []float32 {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case n == 0:
			return nil
		case short(c):
			return guarded(t, n, 1)
		}
		return guarded(t, n, 0)
	}
	tr, err := openFaulting(p, InputOf(b))
	if err != nil {
		return err
	}
	defer tr.Close()
	_, err = tr.Step(t.Context(), b)
	return err
}

// faulted reports whether an error comes from a memory fault.
func faulted(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "fault") || strings.Contains(err.Error(), "invalid memory address"))
}

// openFaulting opens a pipeline whose initialisation may fault.
func openFaulting(p Pipeline, in Input) (tr *Trainer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = failure.Recovered(v)
		}
	}()
	defer faultsPanic(Device{Overcommit: true})()
	return p.Open(in)
}

// TestPlansSufficeToTheFloat checks both halves of guarantee G2: no kernel, however wide its
// vectors, reaches beyond the planned bytes; with one float less, one does, in every category.
func TestPlansSufficeToTheFloat(t *testing.T) {
	testkit.NotRaced(t)
	on := func(name string, p Pipeline, b nn.Batch, partitions, micro, threads int) {
		t.Run(fmt.Sprintf("%s/K=%d/threads=%d", name, partitions, threads), func(t *testing.T) {
			sufficesToTheFloat(t, p, b, partitions, micro, threads)
		})
	}
	networks := map[string]images{"amoebanet": smallAmoebaNet, "amoebanet-b": smallAmoebaNetB, "resnet": smallResNet, "convolutions": smallConvolutions}
	for _, threads := range []int{1, 2} {
		on("lm", small.pipeline(t), small.data(0), 3, 2, threads)
		on("lm-bf16", small.pipeline(t).bf16(), small.data(0), 3, 2, threads)
		for name, n := range networks { // whose kernels read runs and write tiles at the edges of odd images
			on(name, n.pipeline(t, false), n.data(0), 3, 2, 2*threads-1)
			if name != "amoebanet" { // the blocks that are converted lie at the workspace's start
				on(name+"-bf16", n.pipeline(t, false).bf16(), n.data(0), 3, 2, threads)
			}
		}
	}
	// Sums of groups and the buffers of replicas' sums, which a stage that computes little
	// needs most of its workspace for; rows of gathered gradients and the table in which they
	// are added up, which two chunks of a device may have.
	for _, k := range []int{1, 2} {
		p, q := small.pipeline(t), smallTranslation.pipeline(t)
		p.Replicas, p.Groups, p.ShardUpdate = 3, 6, k == 2
		on("replicas", p, small.data(0), 2, 1, k)
		q.Replicas, q.Groups, q.TiedGradients = 3, 6, GatherTied
		on("gathered", q, smallTranslation.data(0), k, 1, 2)
		q.Schedule = schedule.Interleaved
		on("gathered-chunks", q, smallTranslation.data(0), k, 1, 2)
	}
	// Several chunks on a device, and B in two parts, I and W.
	for s, k := range map[schedule.Schedule]int{schedule.Interleaved: 2, schedule.VMin: 2, schedule.ZBH1: 3, schedule.ZBH2: 3} {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.Never} {
			p, q := small.pipeline(t), smallResNet.pipeline(t, false)
			p.Schedule, p.Checkpoint, q.Schedule, q.Checkpoint = s, c, s, c
			name := fmt.Sprint(s, "-", c)
			on("lm-"+name, p, small.data(0), k, 4, 2)
			on("lm-bf16-"+name, p.bf16(), small.data(0), k, 4, 2)
			on("resnet-"+name, q, smallResNet.data(0), k, 4, 2)
		}
	}
}

// TestSpatialPlansSufficeToTheFloat: the same for stages in parts, each of which has memory
// of its own: one float less of any category of any part is missed.
func TestSpatialPlansSufficeToTheFloat(t *testing.T) {
	testkit.NotRaced(t)
	for name, n := range map[string]images{"amoebanet-b": smallAmoebaNetB, "resnet": smallResNet, "convolutions": smallConvolutions} {
		t.Run(name, func(t *testing.T) {
			for _, parts := range []int{2, 3} {
				if testing.Short() && (name != "convolutions" || parts == 3) {
					continue
				}
				p, b := n.pipeline(t, false), n.data(0)
				p.Partitions, p.MicroBatches, p.Spatial = 2, 2, parts
				p.Devices = []Device{{Threads: parts - 1}}
				pieces := 0
				run := func(short int) error { // of the pieces, in the order in which they are mapped
					pieces = 0
					return guardedRun(t, p, b, func(Category) bool { pieces++; return pieces-1 == short })
				}
				testkit.NoError(t, run(-1), "%d parts", parts)
				for i := range pieces {
					if err := run(i); !faulted(err) {
						t.Errorf("%d parts: piece %d one float short: %v, want a memory fault", parts, i, err)
					}
				}
			}
		})
	}
}

// sufficesToTheFloat runs a pipeline on K devices with threads each, in M micro-batches.
func sufficesToTheFloat(t *testing.T, p Pipeline, b nn.Batch, partitions, micro, threads int) {
	t.Helper()
	p.Partitions, p.MicroBatches, p.Devices = partitions, micro, []Device{{Threads: threads}}
	testkit.NoError(t, guardedRun(t, p, b, func(Category) bool { return false }), "%d threads", threads)
	for c := range Categories {
		err := guardedRun(t, p, b, func(of Category) bool { return of == c })
		if err == nil && c == Workspace && endsInScratch(t, p, b) {
			continue
		}
		if !faulted(err) {
			t.Errorf("%d threads: %v one float short: %v, want a memory fault", threads, c, err)
		}
	}
}

// endsInScratch reports whether the workspace of every device is as large as a program
// needs that has nothing but scratch there, as that of W may: scratch is what a kernel is
// allowed, and rounded up, so that its last float may be touched by none.
func endsInScratch(t *testing.T, p Pipeline, b nn.Batch) bool {
	t.Helper()
	p.testing = hooks{}
	n := must(p.network(InputOf(b)))(t)
	for k, planned := range n.MemoryPlans() {
		in := func(q *program.Program) bool {
			if q == nil || int64(q.Span)*plan.FloatBytes != planned.Bytes[Workspace] {
				return false
			}
			for i := range q.Instrs {
				for m := range q.Instrs[i].Moves() {
					if m.Space == program.Workspace {
						return false
					}
				}
			}
			return true
		}
		if !slices.ContainsFunc(n.Pieces.On(k%n.Partitions), func(piece int) bool {
			st := n.Largest(piece)
			return slices.ContainsFunc([]*program.Program{st.Forward, st.Keep, st.Backward, st.Input, st.Weights}, in)
		}) {
			return false
		}
	}
	return true
}
