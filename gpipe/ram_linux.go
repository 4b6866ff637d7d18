package gpipe

import "syscall"

// physicalMemory is what the machine has in bytes, 0 if nobody knows. It is
// more than is free.
func physicalMemory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram+info.Totalswap) * int64(info.Unit)
}
