//go:build !unix

package cluster

import (
	"os/exec"
	"syscall"
)

func separate(*exec.Cmd, syscall.Signal) {}

func stay() {}
