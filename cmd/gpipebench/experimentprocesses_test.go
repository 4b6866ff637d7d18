//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpipebench/experiments/beyond"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// The experiments on processes start some, and their records say which ran where.
func TestProcessesExperiment(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(asCommand, "1")
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	args := []string{"processes", "--profile", "smoke", "--out", dir}
	status, out, said := execute(t, args...)
	if status != 0 || !strings.Contains(out, "runs agree to the bit") || !strings.Contains(out, "measured / one process") {
		t.Fatalf("status %d\n%s\n%s", status, out, said)
	}
	nothingLeft(t, os.TempDir())
	log, err := records.Load(records.File(dir, "processes"), "processes")
	if err != nil {
		t.Fatal(err)
	}
	several := 0
	for _, name := range log.Names {
		var r struct {
			Processes []train.Process `json:"processes,omitempty"`
		}
		if err := log.Get(name, &r); err != nil {
			t.Fatal(err)
		}
		for rank, p := range r.Processes {
			several++
			if p.Rank != rank || p.Host == "" || p.Places == "" || p.MaxRSSBytes == 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
	if several < 50 {
		t.Errorf("%d processes are recorded", several)
	}
	if status, _, said := execute(t, args...); status != 0 || strings.Count(said, "complete records of ") != 2 {
		t.Errorf("once more: status %d, %s", status, said)
	}
}

// An experiment that is killed or interrupted, or loses one of the processes that it has
// started, leaves no process and no file.
func TestProcessesExperimentFails(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(t.TempDir(), "longer.yaml")
	if err := os.WriteFile(spec, []byte(strings.Replace(beyond.Paper.Experiment("processes").Spec(), "steps: 2\n", "steps: 60\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		rank   int // that gets the signal; -1: the experiment
		signal syscall.Signal
		status int
		says   string
	}{
		{"kill the experiment", -1, syscall.SIGKILL, -1, ""},
		{"interrupt the experiment", -1, syscall.SIGINT, 1, "gpipebench: interrupted"},
		{"kill rank 0", 0, syscall.SIGKILL, 1, "rank 0 was ended by a signal (9, killed)"},
		{"kill rank 1", 1, syscall.SIGKILL, 1, "rank 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			temporary := t.TempDir()
			cmd := exec.Command(self, "processes", "--profile", "smoke", "--spec", spec, "--out", filepath.Join(t.TempDir(), "out"))
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temporary)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ranks []int
			for range 60_000 {
				if ranks = children(t, cmd.Process.Pid); len(ranks) > 1 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			pid := cmd.Process.Pid
			if c.rank >= 0 && len(ranks) > c.rank {
				pid = ranks[c.rank]
			}
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // its status follows
			if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(said.String(), c.says) {
				t.Errorf("status %d, want %d and %q:\n%s", got, c.status, c.says, said.String())
			}
			if n := strings.Count(said.String(), "gpipebench: "); c.status > 0 && n != 1 {
				t.Errorf("%d lines about the reason:\n%s", n, said.String())
			}
			left := ranks
			for range 1000 {
				if left = slices.DeleteFunc(slices.Clone(left), func(pid int) bool { return !lives(pid) }); len(left) == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if len(ranks) < 2 || len(left) > 0 {
				t.Errorf("of processes %v are left %v", ranks, left)
			}
			nothingLeft(t, temporary)
		})
	}
}

// The accumulation of a table runs in processes too, with one sum whichever way, and is
// complete the second time.
func TestAccumulationMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(asCommand, "1")
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	args := []string{"accumulation-measured", "--profile", "smoke", "--out", dir}
	status, out, said := execute(t, args...)
	if status != 0 || !strings.Contains(out, "gather / reduce, modelled") {
		t.Fatalf("status %d\n%s\n%s", status, out, said)
	}
	nothingLeft(t, os.TempDir())
	log, err := records.Load(records.File(dir, "accumulation-measured"), "accumulation-measured")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[int]string{}
	for _, name := range log.Names {
		var r struct {
			Ranks []struct {
				Rank     int    `json:"rank"`
				Program  int64  `json:"program_bytes"`
				Resident int64  `json:"resident_bytes"`
				SHA256   string `json:"sha256"`
			} `json:"ranks"`
		}
		if err := log.Get(name, &r); err != nil {
			t.Fatal(err)
		}
		for _, o := range r.Ranks {
			if o.Program == 0 || o.Resident == 0 { // the system may have taken back pages of the program's
				t.Errorf("%s: %+v", name, o)
			}
			n := len(r.Ranks)
			if !strings.Contains(name, "/V=500/") {
				n = -n // the smaller table
			}
			if sums[n] == "" {
				sums[n] = o.SHA256
			}
			if o.SHA256 != sums[n] {
				t.Errorf("%s, rank %d: another sum than before", name, o.Rank)
			}
		}
	}
	if len(sums) != 4+3 {
		t.Errorf("sums of %d kinds of runs", len(sums))
	}
	if status, _, said := execute(t, args...); status != 0 || strings.Count(said, "complete records of ") != 1 {
		t.Errorf("once more: status %d, %s", status, said)
	}
}

// A rank refuses what it cannot exchange with one line.
func TestExchangeRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"exchange": "want accumulate or sum", "exchange --of sum --job {": "unexpected EOF", `exchange --of sum --job {"Sise":1}`: "unknown field",
		`exchange --of accumulate --job {"Way":1}`: "want 1 or more of each",
	} {
		if status, _, said := execute(t, strings.Fields(args)...); status != 2 || strings.Count(said, "\n") != 1 || !strings.Contains(said, says) {
			t.Errorf("%s: status %d, %s", args, status, said)
		}
	}
}
