//go:build !linux

package machine

// MemoryAndSwap returns the machine's memory and swap space in bytes, free or not; 0 if
// they are not known.
func MemoryAndSwap() (ram, swap int64) { return 0, 0 }
