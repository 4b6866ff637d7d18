//go:build linux || darwin

package machine

import (
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"gpipebench/internal/files"
)

// MaxRSS is the most memory that the process has had resident, in bytes. What
// getrusage tells on Linux begins with the peak of the process that started this
// one; /proc has its own.
func MaxRSS() int64 {
	if status, err := files.Read("/proc/self/status", procKind); err == nil {
		if m := ownPeak.FindSubmatch(status); m != nil {
			kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
			return kib << 10
		}
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "linux" {
		return int64(u.Maxrss) << 10 // it counts in KiB
	}
	return int64(u.Maxrss)
}

var ownPeak = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// processCPU is the processor time of this process in seconds; -1 if unknown.
func processCPU() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
