package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A defect is one line that says so and where, status 1, and a file with the trace.
func TestDefect(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	command := &cobra.Command{RunE: func(_ *cobra.Command, args []string) error {
		_ = args[len(args)]
		return nil
	}}
	command.SetArgs([]string{})
	err := caught(t.Context(), command)
	text, status := complaint(err)
	line := regexp.MustCompile(`^gpipebench: a defect of this program, in cmd/gpipebench\.TestDefect\.func1 \(gpipebench/defect_test\.go:\d+\): panic: runtime error: index out of range \[0\] with length 0; its trace is in (.+)$`)
	named := line.FindStringSubmatch(text)
	if named == nil || status != 1 {
		t.Fatalf("%q, status %d", text, status)
	}
	trace, err2 := os.ReadFile(named[1])
	if err2 != nil || !strings.HasPrefix(text, strings.SplitN(string(trace), "\n", 2)[0]+";") || !strings.Contains(string(trace), "goroutine ") || !strings.Contains(string(trace), "TestDefect.func1") {
		t.Errorf("%v: the trace is\n%s", err2, trace)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if text, status := complaint(err); status != 1 || !strings.Contains(text, "; its trace cannot be written: ") || strings.Contains(text, "\n") {
		t.Errorf("nowhere to write: %q, status %d", text, status)
	}
}
