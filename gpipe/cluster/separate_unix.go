//go:build unix && !linux

package cluster

import (
	"os/exec"
	"syscall"
)

// separate puts a process into a group of its own, so that a terminal's interrupt
// reaches it by the launcher alone.
func separate(c *exec.Cmd, _ syscall.Signal) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stay() {}
