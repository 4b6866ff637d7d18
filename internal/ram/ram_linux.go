// Package ram says how much memory the machine has.
package ram

import "syscall"

// Total returns the machine's memory and swap space in bytes, free or not; 0 if
// they are not known.
func Total() (ram, swap int64) {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0, 0
	}
	unit := int64(info.Unit)
	return int64(info.Totalram) * unit, int64(info.Totalswap) * unit
}
