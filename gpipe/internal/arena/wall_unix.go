//go:build unix

package arena

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
