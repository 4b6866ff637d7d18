//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command that times something starts itself for each round, and says so.
func TestRoundsAreProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	status, stdout, stderr := execute(t, "breakdown", "--profile", "smoke", "--out", dir, "--reference", "")
	if status != 0 || !strings.Contains(stdout, "Processes: a fresh one for each of the 2 rounds.") || !strings.Contains(stdout, "Seeds: 1.") {
		t.Errorf("exit status %d, %s\n%s", status, stdout, stderr)
	}
	if status, _, stderr := execute(t, "round"); status != 2 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "it is reproduce that starts this") {
		t.Errorf("round by hand: exit status %d, %s", status, stderr)
	}
}

// Ctrl-C, which a terminal sends to a command and its round's process at once,
// ends both in one line.
func TestInterruptedRounds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self, "reproduce", "--only", "breakdown", "--profile", "smoke", "--out", dir, "--reference", "")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	interrupted := false
	for piece := make([]byte, 4096); ; {
		n, err := said.Read(piece)
		text.Write(piece[:n])
		if !interrupted && strings.Contains(text.String(), "round=0/step=0") {
			interrupted = true
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
		if err != nil {
			break // it has ended
		}
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(text.String(), "gpipebench: interrupted; no file is left half-written\n") || strings.Count(text.String(), "gpipebench: ") != 1 {
		t.Errorf("exit status %d after\n%s", cmd.ProcessState.ExitCode(), &text)
	}
	if _, err := os.Stat(filepath.Join(dir, "records", "breakdown.jsonl")); err != nil {
		t.Error(err)
	}
}
