//go:build !linux

package gpipe

// physicalMemory is what the machine has in bytes, 0 if nobody knows.
func physicalMemory() int64 { return 0 }
