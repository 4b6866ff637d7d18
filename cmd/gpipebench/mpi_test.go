//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// Tests of --transport mpi: make mpi runs them, with programs that are built with MPI.

// mpiruns are the names of an MPI's mpirun, what its version says (under each name), and flags.
var mpiruns = map[string]struct {
	names []string
	says  string
	flags []string
}{
	"Open MPI": {[]string{"mpirun.openmpi", "mpirun"}, "open-mpi.org", []string{"--oversubscribe", "--bind-to", "none"}},
	"MPICH":    {[]string{"mpirun.mpich", "mpiexec.hydra", "mpirun"}, "HYDRA", nil},
}

// mpirun is of the MPI that this test was built with, with its flags. The test is skipped if
// it was built with none.
func mpirun(t *testing.T) []string {
	t.Helper()
	if err := mpi.Built(); err != nil {
		t.Skip(err)
	}
	of := mpiruns[mpi.Implementation]
	for _, name := range of.names {
		if version, err := exec.Command(name, "--version").Output(); err == nil && strings.Contains(string(version), of.says) {
			return append([]string{name}, of.flags...)
		}
	}
	t.Fatalf("no mpirun of %s is installed, with which this test was built", mpi.Implementation)
	return nil
}

// overMPI is a command that runs this program in processes that mpirun starts, each with
// the environment variable mark.
func overMPI(t *testing.T, processes int, args ...string) (c *exec.Cmd, mark string) {
	t.Helper()
	testkit.CI(t)
	command := slices.Concat(mpirun(t), []string{"-n", strconv.Itoa(processes), program}, args)
	c = exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	mark = "GPIPEBENCH_TEST=" + t.TempDir()
	// A test may run as root, and in a container, where processes may not read one another's memory.
	c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_btl_vader_single_copy_mechanism=none", asCommand+"=1", mark)
	return c, mark
}

// What processes train that MPI connects has the bits of one process.
func TestTransportMPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processes int
		flags     string
	}{
		{2, "-k 2 -m 2"},
		{2, "-k 2 -m 3 --schedule zb-v"},
		{2, "--replicas 2 -m 2 --ema 0.9"},
		{4, "--replicas 2 -k 2 -m 2 --zero 1 --schedule interleaved"},
		{3, "--replicas 2 -k 2 -m 1 --spread stage --schedule 1f1b"},
		{4, "--replicas 4 -m 1 --groups 4"},
	} {
		training := slices.Concat([]string{"train"}, tiny, strings.Fields("--steps 5 --eval-every 2 "+c.flags))
		cmd, _ := overMPI(t, c.processes, append(training, "--transport", "mpi")...)
		several := trained(t, cmd)
		testkit.Equal(t, same(several), same(decodedJSON[*train.Result](t, training...)), "%s: %d processes have", c.flags, c.processes)
		testkit.Equal(t, len(several.Processes), c.processes, "%s: processes %+v", c.flags, several.Processes)
	}
}

// A process that never comes to MPI_Init ends the run after the time limit.
func TestTransportMPILate(t *testing.T) {
	t.Parallel()
	c, _ := overMPI(t, 1, slices.Concat([]string{"train", "--transport", "mpi", "--replicas", "2", "-m", "2", "--steps", "2"}, tiny, []string{":", "-n", "1", "sleep", "100"})...)
	c.Env = append(c.Env, "GPIPEBENCH_TIMEOUT=2s")
	r := start(t, c)
	if status := r.status(); status == 0 || strings.Count(r.said.String(), "gpipebench: ") != 1 || !strings.Contains(r.said.String(), mpi.Implementation+": not all processes have called MPI_Init within 2 s") {
		t.Errorf("status %d\n%s", status, r.said)
	}
}

// A rank that fails, is stopped or killed ends the run everywhere: with one line of this
// program about it, or of mpirun, which sees a process die before the others do.
func TestTransportMPIFails(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		signal syscall.Signal
		rank   int
		says   string // ours; "": mpirun's
	}{
		{"terminate rank 1", syscall.SIGTERM, 1, "rank 1"},
		{"stop rank 2", syscall.SIGSTOP, 2, "is gone: it has been silent for 5 s"},
		{"stop rank 0", syscall.SIGSTOP, 0, "rank 0 (replica 0, on "},
		{"kill rank 1", syscall.SIGKILL, 1, ""},
		{"kill rank 0", syscall.SIGKILL, 0, ""},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c, mark := overMPI(t, 3, slices.Concat([]string{"train", "--transport", "mpi"}, strings.Fields("--replicas 3 -m 1 --steps 1000000 --eval-every 2"), tiny)...)
			if f.signal == syscall.SIGSTOP {
				c.Env = append(c.Env, cluster.TimeoutVariable+"="+limited)
			}
			r := start(t, c)
			r.await("step 2/")
			victim := marked(mark)[f.rank]
			if victim == 0 {
				t.Fatalf("no rank %d among %v", f.rank, marked(mark))
			}
			testkit.NoError(t, syscall.Kill(victim, f.signal))
			if r.status() == 0 {
				t.Error("no error")
			}
			until(t, "end of all ranks", func() bool { return len(marked(mark)) == 0 })
			text := r.said.String()
			ours := strings.Count(text, "gpipebench: ")
			switch {
			case f.says == "":
				if ours > 1 || !strings.Contains(text, "signal 9") && !strings.Contains(text, "SIGNAL: 9") && !strings.Contains(text, "CODE: 9") {
					t.Errorf("says\n%s", text)
				}
			case f.rank == 0: // goes on when it is to be ended, and may then miss the others
				if ours < 1 || ours > 2 || !strings.Contains(text, f.says) {
					t.Errorf("says\n%s", text)
				}
			case ours != 1 || !strings.Contains(text, f.says) || !strings.Contains(text, fmt.Sprint("rank ", f.rank)):
				t.Errorf("says\n%s", text)
			}
		})
	}
}

// A program that this MPI's mpirun has not started says so.
func TestTransportMPIStarts(t *testing.T) {
	if mpi.Built() != nil {
		fails(t, 2, "go build -tags mpi", "train", "--transport", "mpi")
		return
	}
	fails(t, 2, "want mpirun -n P gpipebench", "train", "--transport", "mpi")
	args := slices.Concat(strings.Fields("launch -n 2 -- train --transport mpi --replicas 2 -m 2"), tiny)
	fails(t, 2, "gpipebench started this process as rank 0 of 2, but for "+mpi.Implementation+" it is rank 0 of 1", args...)
}

// marked are the processes with a variable, by the rank that mpirun has given them.
func marked(variable string) map[int]int {
	all := map[int]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		of := strings.Split(string(text), "\x00")
		for _, v := range of {
			value, ok := strings.CutPrefix(v, "OMPI_COMM_WORLD_RANK=")
			if !ok {
				value, ok = strings.CutPrefix(v, "PMI_RANK=")
			}
			if rank, err := strconv.Atoi(value); ok && err == nil && slices.Contains(of, variable) {
				all[rank], _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			}
		}
	}
	return all
}
