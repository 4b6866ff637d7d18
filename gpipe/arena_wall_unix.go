//go:build unix

package gpipe

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapWalled maps n floats of which only the first capacity bytes, a multiple of
// the page size, may be touched; at least one page behind them may not.
func mapWalled(n, capacity int) ([]float32, func() error, error) {
	page := os.Getpagesize()
	size := (n*floatBytes + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, size+page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Mprotect(b[:capacity], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		_ = unix.Munmap(b)
		return nil, nil, err
	}
	adviseHuge(b[:capacity])
	f := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
	return f, func() error { return unix.Munmap(b) }, nil
}

// offsetIn is how many bytes behind the beginning of memory an address lies,
// if it is within.
func offsetIn(memory []float32, addr uintptr) (int64, bool) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if len(memory) == 0 || addr < begin || addr-begin >= uintptr(len(memory))*floatBytes {
		return 0, false
	}
	return int64(addr - begin), true
}
