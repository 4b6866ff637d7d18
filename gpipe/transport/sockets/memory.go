package sockets

import "unsafe"

// memoryOf is the memory of a tensor, in this machine's byte order: ranks with another
// one are refused (see hello).
func memoryOf(t []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t))), 4*len(t))
}

// byteOrder is the first byte of 1 in memory.
func byteOrder() string {
	one := float32(1)
	if memoryOf([]float32{one})[0] == 0 {
		return "little"
	}
	return "big"
}
