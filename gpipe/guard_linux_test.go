package gpipe

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// guarded maps n floats that end right before a page that cannot be touched.
// Short of the promised length, the last floats lie on that page.
func guarded(t testing.TB, n, short int) []float32 {
	if n == 0 {
		return nil
	}
	page := os.Getpagesize()
	room := ((n-short)*4 + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mprotect(mem[room:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[room-(n-short)*4])), n)
}

// guardedRun trains with every category in a mapping of exactly the planned
// bytes; short takes floats off one of them.
func guardedRun(t *testing.T, p Pipeline, short Category, floats int) error {
	var mu sync.Mutex
	p.testing.panicOnFault = true
	p.testing.allocate = func(c Category, n int) []float32 {
		mu.Lock()
		defer mu.Unlock()
		if c != short || n == 0 {
			return guarded(t, n, 0)
		}
		return guarded(t, n, floats)
	}
	tr, err := openFaulting(p)
	if err != nil {
		return err
	}
	defer tr.Close()
	_, err = tr.Step(t.Context(), small.data(0))
	return err
}

// openFaulting opens a pipeline whose initialisation may fault.
func openFaulting(p Pipeline) (tr *Trainer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v}
		}
	}()
	defer setPanicOnFault()()
	return p.Open(InputOf(small.data(0)))
}

// TestPlanSufficesToTheFloat is one half of guarantee G2: no kernel, however
// wide its vectors, reaches beyond the planned bytes. The other half is that
// with one float less it does, in every category.
func TestPlanSufficesToTheFloat(t *testing.T) {
	for _, threads := range []int{1, 2} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches = 3, 2
		p.Devices = []Device{{Threads: threads}}
		if err := guardedRun(t, p, Categories, 0); err != nil {
			t.Fatalf("%d threads: %v", threads, err)
		}
		for c := range Categories {
			err := guardedRun(t, p, c, 1)
			if err == nil || !strings.Contains(err.Error(), "fault") && !strings.Contains(err.Error(), "invalid memory address") {
				t.Errorf("%d threads: %v one float short: %v, want a memory fault", threads, c, err)
			}
		}
	}
}
