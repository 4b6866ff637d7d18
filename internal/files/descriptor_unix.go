//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descriptor returns the descriptor of this process for which a path without
// links stands, as /dev/fd/1 does for 1.
func descriptor(path string) (fd int, ok bool) {
	dir, base := filepath.Split(path)
	own := "/proc/" + strconv.Itoa(os.Getpid())
	if dir != "/dev/fd/" && dir != own+"/fd/" && !(strings.HasPrefix(dir, own+"/task/") && strings.HasSuffix(dir, "/fd/")) {
		return 0, false
	}
	fd, err := strconv.Atoi(base)
	return fd, err == nil && fd >= 0
}

// duplicate returns a file for a copy of a descriptor, which shares its
// position. Opening the name instead would start from the beginning, and fails
// for a socket.
func duplicate(fd int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), name), nil
}
