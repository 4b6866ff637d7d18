// Package mpitest starts tests' processes with mpirun.
package mpitest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/transport/mpi"
)

// mpiruns are the names of an MPI's mpirun, what its version says (under each name), and flags.
var mpiruns = map[string]struct {
	names []string
	says  string
	flags []string
}{
	"Open MPI": {[]string{"mpirun.openmpi", "mpirun"}, "open-mpi.org", []string{"--oversubscribe", "--bind-to", "none"}},
	"MPICH":    {[]string{"mpirun.mpich", "mpiexec.hydra", "mpirun"}, "HYDRA", nil},
}

// Command returns a command that starts processes with the mpirun of the MPI that this
// test was built with. The test is skipped if it was built with none.
func Command(t testing.TB, processes int, args ...string) *exec.Cmd {
	t.Helper()
	if err := mpi.Built(); err != nil {
		t.Skip(err)
	}
	of := mpiruns[mpi.Implementation]
	for _, name := range of.names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if version, err := exec.Command(path, "--version").Output(); err != nil || !strings.Contains(string(version), of.says) {
			continue
		}
		c := exec.CommandContext(t.Context(), path, append(append(of.flags[:len(of.flags):len(of.flags)], "-n", strconv.Itoa(processes)), args...)...)
		c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
		c.WaitDelay = 10 * time.Second
		// A test may run as root, and in a container, where processes may not read one another's memory.
		c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_btl_vader_single_copy_mechanism=none")
		return c
	}
	t.Fatalf("no mpirun of %s is installed, with which this test was built", mpi.Implementation)
	return nil
}
