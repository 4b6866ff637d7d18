package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// separate puts a process into a group of its own, so that a terminal's interrupt
// reaches it by the launcher alone, and makes it get a signal when the launcher ends:
// SIGKILL ends it even if it is stopped.
func separate(c *exec.Cmd, atEnd syscall.Signal) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: atEnd}
}

// stay keeps the calling goroutine's thread for it, as Pdeathsig counts threads.
func stay() { runtime.LockOSThread() }
