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
	stdout, _ := succeeds(t, "breakdown", "--profile", "smoke", "--out", dir, "--reference", "")
	testkit.Has(t, stdout, "Processes: a fresh one for each of the 2 rounds.", "Seeds: 1.")
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
	r.endsWith(1)
	if !strings.HasSuffix(r.said.String(), "\n"+r.reason()+"\n") {
		t.Errorf("the reason is not the last line of\n%s", r.said)
	}
	testkit.Equal(t, r.reason(), "gpipebench: interrupted; no file is left half-written")
	testkit.Must(os.Stat(filepath.Join(dir, "records", "breakdown.jsonl")))(t)
}
