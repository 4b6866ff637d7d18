package machine

import "syscall"

// MemoryAndSwap returns the machine's memory and swap space in bytes, free or not; 0 if
// they are not known.
func MemoryAndSwap() (ram, swap int64) {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0, 0
	}
	unit := int64(info.Unit)
	return int64(info.Totalram) * unit, int64(info.Totalswap) * unit
}
