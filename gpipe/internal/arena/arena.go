// Package arena maps the memory of devices outside the garbage-collected heap, so
// that the process's memory is what was planned and not the multiple of it that the
// collector's pacing allows.
package arena

import (
	"os"
	"runtime"
	"sync"
	"unsafe"
)

const floatBytes = int(unsafe.Sizeof(float32(0)))

// Map maps n zeroed floats until free is called. It has written to every page, so
// that the system provides the page now and not during the first task that uses it,
// which is timed.
func Map(n int) (memory []float32, free func() error, err error) {
	memory, free, err = mapFloats(n)
	if err == nil {
		touch(memory)
	}
	return memory, free, err
}

// MapWalled maps n floats. Only the first capacity bytes, a multiple of the page
// size, may be touched; at least one page after them is protected. Nothing has been
// touched yet. It is an error on systems without pages that can be protected.
func MapWalled(n, capacity int) (memory []float32, free func() error, err error) {
	return mapWalled(n, capacity)
}

// Offset returns how many bytes an address lies after the beginning of memory; ok is
// false if it lies outside.
func Offset(memory []float32, addr uintptr) (bytes int64, ok bool) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if len(memory) == 0 || addr < begin || addr-begin >= uintptr(len(memory)*floatBytes) {
		return 0, false
	}
	return int64(addr - begin), true
}

// touch writes to every page of zeroed memory. It uses all cores, since a system
// takes long to clear huge pages and perhaps to get them from a hypervisor.
func touch(all []float32) {
	page := os.Getpagesize() / floatBytes
	pages := (len(all) + page - 1) / page
	threads := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for t := range threads {
		wait.Go(func() {
			for i := pages * t / threads; i < pages*(t+1)/threads; i++ {
				all[i*page] = 0
			}
		})
	}
	wait.Wait()
}
