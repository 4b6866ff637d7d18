//go:build !unix

package launch

import (
	"os/exec"
	"syscall"
)

func separate(*exec.Cmd, syscall.Signal) {}

func stay() {}
