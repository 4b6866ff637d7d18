//go:build unix && !race

package arena

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapFloats(n int) ([]float32, func() error, error) {
	if n == 0 {
		return nil, func() error { return nil }, nil
	}
	b, err := unix.Mmap(-1, 0, n*floatBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	adviseHuge(b)
	f := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
	return f, func() error { return unix.Munmap(b) }, nil
}
