//go:build unix && !solaris && !aix

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// locks says whether lock detects that another process has a file open.
const locks = true

// lock keeps other processes, and other opened files of this one, from locking
// a file until it is closed, however the process ends.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
