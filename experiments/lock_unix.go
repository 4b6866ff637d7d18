//go:build unix && !solaris && !aix

package experiments

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile keeps other processes from locking a file until it is closed, however
// the process ends.
func lockFile(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
