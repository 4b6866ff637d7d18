package kernel

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"gpipebench/internal/testkit"
)

// guardedMemory maps usable pages between inaccessible ones, and returns the
// usable ones.
func guardedMemory(t *testing.T, bytes int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	inner := (bytes + page - 1) / page * page
	m := testkit.Must(syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	t.Cleanup(func() {
		testkit.Equal(t, syscall.Munmap(m), nil)
	})
	for _, guard := range [][]byte{m[:page], m[page+inner:]} {
		testkit.NoError(t, syscall.Mprotect(guard, syscall.PROT_NONE))
	}
	return m[page : page+inner]
}

func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// Operands end right before an inaccessible page, or begin right after one. A
// fault kills the test.
func TestVectorKernelsBesideGuardPages(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		places := besideGuards(t, len(k.operands), 1<<12)
		for _, c := range k.shapes() {
			values := k.fill(c)
			want := k.run(values, onHeap, c)
			for _, place := range places {
				sameBits(t, fmt.Sprintf("%+v beside guard pages", c), k.run(values, place(), c), want)
			}
		}
	})
}
