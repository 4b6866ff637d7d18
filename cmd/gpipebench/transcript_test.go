package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// transcript is what processes have printed so far, up to a megabyte of it.
type transcript struct {
	lock sync.Mutex
	b    bytes.Buffer
	n    int // newlines
}

func (t *transcript) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.n += bytes.Count(p, []byte("\n"))
	t.b.Write(p[:min(len(p), max(0, 1<<20-t.b.Len()))])
	return len(p), nil
}

func (t *transcript) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.b.String()
}

// childrenOf are a process's children that have not been waited for, in the order in which they were
// started, whichever thread has started them. A child that still runs its parent's program is none
// yet: a test that stopped it there would stop the parent, which waits for it.
func childrenOf(parent int) (pids []int) {
	command := func(pid int) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // an error: it has ended
		return string(text)
	}
	own := command(parent)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) // the pattern is well-formed
	for _, name := range tasks {
		text, _ := os.ReadFile(name) // an error: the thread has ended
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && command(pid) != own {
				pids = append(pids, pid)
			}
		}
	}
	// Numbers grow from the parent's on, and begin again after the last.
	order := func(pid int) int {
		if pid < parent {
			return pid + 1<<22
		}
		return pid
	}
	slices.SortFunc(pids, func(a, b int) int { return order(a) - order(b) })
	return pids
}

// lives reports whether there is a process that has not ended.
func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(text[bytes.LastIndexByte(text, ')')+1:]), " Z")
}
