//go:build !linux

package gpipe

// MachineMemory is the machine's memory and swap space in bytes, free or not; 0 if
// they are not known.
func MachineMemory() (ram, swap int64) { return 0, 0 }
