package failure

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Ending describes how a child process ended early: by which signal, or with
// which status and last line of output, or why it panicked. On some signals
// Go's runtime ends a process with status 2 after a dump of its goroutines,
// which begins with the signal's name.
func Ending(state *os.ProcessState, printed, executable string) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was ended by a signal (%d, %v)", int(status.Signal()), status.Signal())
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	if i := slices.IndexFunc(lines, dumped.MatchString); i >= 0 {
		return "was ended by a signal (" + strings.Replace(lines[i], ": ", ", ", 1) + ")"
	}
	line := lines[len(lines)-1]
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") }); i >= 0 {
		line = lines[i]
	}
	if line == "" {
		line = "it said nothing"
	}
	return fmt.Sprintf("ended early (%v): %s", state, strings.TrimPrefix(line, filepath.Base(executable)+": "))
}

var dumped = regexp.MustCompile(`^SIG[A-Z]+: [a-z ]+$`)
