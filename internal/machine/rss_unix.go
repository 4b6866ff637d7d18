//go:build linux || darwin

package machine

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxRSS returns the most memory that this process has had resident, in bytes, 0 if
// that is unknown. On Linux it is read from /proc, since getrusage's begins with the
// peak of the process that started this one.
func MaxRSS() int64 {
	if n := procBytes("/proc/self/status", "VmHWM"); n > 0 {
		return n
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return rssBytes(int64(u.Maxrss))
}

// MaxRSSOf returns the same of a process that has ended.
func MaxRSSOf(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return rssBytes(int64(u.Maxrss))
	}
	return 0
}

// rssBytes returns what getrusage counts in KiB on Linux, in bytes elsewhere.
func rssBytes(n int64) int64 {
	if runtime.GOOS == "linux" {
		return n << 10
	}
	return n
}

// ProcessorSeconds is the processor time of this process so far, its children not counted; -1 if unknown.
func ProcessorSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
