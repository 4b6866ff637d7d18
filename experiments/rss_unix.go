//go:build linux || darwin

package experiments

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// maxRSS is the most memory that the process has had resident, in bytes.
func maxRSS() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "linux" {
		return int64(u.Maxrss) << 10 // it counts in KiB
	}
	return int64(u.Maxrss)
}

// processCPU is the processor time of this process in seconds; -1 if unknown.
func processCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
