//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpipebench/internal/testkit"
)

// A command that times something starts itself for each round, and says so.
func TestRoundsAreProcesses(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir := t.TempDir()
	status, stdout, stderr := execute(t, "breakdown", "--profile", "smoke", "--out", dir, "--reference", "")
	if status != 0 || !strings.Contains(stdout, "Processes: a fresh one for each of the 2 rounds.") || !strings.Contains(stdout, "Seeds: 1.") {
		t.Errorf("exit status %d, %s\n%s", status, stdout, stderr)
	}
	fails(t, 2, "it is reproduce that starts this", "round")
}

// Ctrl-C, which a terminal sends to a command and its round's process at once,
// ends both in one line.
func TestInterruptedRounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := changed(t, "breakdown", "rounds: 2\n", "rounds: 100\n")
	cmd := command(t.TempDir(), "reproduce --only breakdown --profile smoke --spec "+spec+" --reference= --out "+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r := start(t, cmd)
	r.await("round=0/step=0")
	testkit.Equal(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT), nil)
	if status := r.status(); status != 1 || !strings.HasSuffix(r.said.String(), "gpipebench: interrupted; no file is left half-written\n") {
		t.Errorf("exit status %d after\n%s", status, r.said)
	}
	r.reason() // one line
	if _, err := os.Stat(filepath.Join(dir, "records", "breakdown.jsonl")); err != nil {
		t.Error(err)
	}
}
