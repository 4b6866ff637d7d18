//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descriptor is which of this process's descriptors a path without links stands
// for, as /dev/fd/1 does.
func descriptor(path string) (fd int, ok bool) {
	dir, base := filepath.Split(path)
	own := "/proc/" + strconv.Itoa(os.Getpid())
	if dir != "/dev/fd/" && dir != own+"/fd/" && !(strings.HasPrefix(dir, own+"/task/") && strings.HasSuffix(dir, "/fd/")) {
		return 0, false
	}
	fd, err := strconv.Atoi(base)
	return fd, err == nil && fd >= 0
}

// duplicate makes a file of its own of a descriptor, with its place in what it
// reads or writes. To open its name anew would begin at the start, and fails for
// a socket.
func duplicate(fd int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), name), nil
}
