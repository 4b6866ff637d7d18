package kernel

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"
)

// guardedMemory maps usable pages between inaccessible ones, and returns the
// usable ones.
func guardedMemory(t *testing.T, bytes int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	inner := (bytes + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{m[:page], m[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
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
		memory := make([][]float32, len(k.operands))
		for i := range memory {
			memory[i] = float32s(guardedMemory(t, 1<<14))
		}
		for _, c := range k.shapes() {
			values := k.fill(c)
			want := k.run(values, onHeap, c)
			for _, atEnd := range []bool{false, true} {
				i := -1
				got := k.run(values, func(n int) []float32 {
					i++
					if atEnd {
						return memory[i][len(memory[i])-n:]
					}
					return memory[i][:n:n]
				}, c)
				sameBits(t, fmt.Sprintf("%+v beside guard pages", c), got, want)
			}
		}
	})
}
