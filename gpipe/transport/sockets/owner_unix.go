//go:build unix

package sockets

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a file belongs to this user.
func ours(st fs.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
