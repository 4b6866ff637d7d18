package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gpipebench/gpipe/transport/mpi"
	"gpipebench/internal/failure"
)

// Program is what an experiment embeds that starts processes: the program that they run,
// which obeys RankCommand as gpipebench does.
type Program struct{ executable string }

// Starter is such an experiment.
type Starter interface{ StartWith(executable string) }

// StartWith names the program; "" if it is missing.
func (p *Program) StartWith(executable string) { p.executable = executable }

// Networks are what may connect the processes of one machine.
var Networks = []string{"unix", "tcp", "mpi"}

// Lacks says why processes cannot be connected in one of these ways; "": they can.
func Lacks(network string) string {
	if network == "mpi" && mpi.Built() != nil {
		return "not in this binary"
	}
	return ""
}

// Run runs a command in several processes, connected by one of Networks, and reads the
// JSON that it prints. When it fails, or the context ends, no process is left.
func (p *Program) Run(ctx context.Context, processes int, network string, args []string, into any) error {
	if p.executable == "" {
		return errors.New("no program to start processes with: want gpipebench itself")
	}
	var out []byte
	var err error
	if network == "mpi" {
		out, err = mpirun(ctx, processes, slices.Concat([]string{p.executable}, args, []string{"--transport", "mpi", "--json"}))
	} else {
		out, err = Launching{Processes: processes, TCP: network == "tcp", Executable: p.executable, Args: append(args, "--json")}.output(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s in %d processes: %w", args[0], processes, err)
	}
	return json.Unmarshal(out, into)
}

// output runs the processes, and returns what rank 0 has printed. An error has what it has
// said last.
func (l Launching) output(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	said := &tail{}
	l.Stdout, l.Stderr = &out, said
	err := l.Run(ctx)
	var failed *Failed
	if errors.As(err, &failed) { // nobody has seen what rank 0 has printed
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		err = fmt.Errorf("%v: %s", err, strings.TrimPrefix(lines[len(lines)-1], "gpipebench: "))
	}
	return out.Bytes(), err
}

// mpirun runs a command in processes of this machine with the mpirun of the MPI that this
// program is built with, and returns what it prints. It is terminated when the context or this
// process ends, and then ends its processes.
func mpirun(ctx context.Context, processes int, command []string) (out []byte, err error) {
	name, flags := "mpirun.openmpi", []string{"--oversubscribe", "--bind-to", "none"}
	if mpi.Implementation == "MPICH" {
		name, flags = "mpirun.mpich", nil
	}
	if _, err := exec.LookPath(name); err != nil {
		name = "mpirun"
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		stay()
		c := exec.CommandContext(ctx, name, slices.Concat(flags, []string{"-n", strconv.Itoa(processes)}, command)...)
		c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1") // as any user may run this program
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = grace
		separate(c, syscall.SIGTERM)
		said := &tail{}
		c.Stderr = said
		if out, err = c.Output(); err != nil && c.ProcessState != nil {
			err = fmt.Errorf("%s %s", name, failure.Ending(c.ProcessState, said.String(), name))
		}
	}()
	<-done
	return out, err
}
