package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// Tests of the command as a process, or as several. They wait for what processes print and for
// files, and never for a time: a machine may be as busy as it likes.

// patience is longer than anything here takes. It ends what would never end.
const patience = 5 * time.Minute

// until waits for something.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// command is a command line as a process, with a directory for temporary files.
func command(temporary, line string, more ...string) *exec.Cmd {
	cmd := exec.Command(program, append(strings.Fields(line), more...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	return cmd
}

// running is a process whose standard error is watched, and its output if that goes nowhere else.
type running struct {
	*testing.T
	cmd   *exec.Cmd
	said  *transcript
	ended chan struct{} // closed when it has ended
}

// start starts a process. It ends with the test at the latest.
func start(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t, cmd, &transcript{}, make(chan struct{})}
	cmd.Stderr = r.said
	if cmd.Stdout == nil {
		cmd.Stdout = r.said
	}
	testkit.NoError(t, cmd.Start())
	go func() {
		defer close(r.ended)
		_ = cmd.Wait() // its state is looked at
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error: it has ended
		<-r.ended
	})
	return r
}

// over reports whether the process has ended.
func (r *running) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// until waits for something that happens while the process runs.
func (r *running) until(what string, is func() bool) {
	r.Helper()
	until(r.T, what, func() bool { return r.over() || is() })
	if r.over() && !is() {
		r.Fatalf("ended without %s:\n%s", what, r.said)
	}
}

// await waits for a text on standard error.
func (r *running) await(text string) {
	r.Helper()
	r.until(strconv.Quote(text), func() bool { return strings.Contains(r.said.String(), text) })
}

// status waits for the end and returns the exit status, -1 after a signal.
func (r *running) status() int {
	r.Helper()
	until(r.T, "end", r.over)
	return r.cmd.ProcessState.ExitCode()
}

// endsWith waits for the end, with an exit status, after all of says was said.
func (r *running) endsWith(status int, says ...string) {
	r.Helper()
	testkit.Equal(r, r.status(), status, "exit status, after\n%s\n", r.said)
	testkit.Has(r, r.said.String(), says...)
}

// reason returns the one line that says why a process has ended.
func (r *running) reason() string {
	r.Helper()
	var lines []string
	for line := range strings.Lines(r.said.String()) {
		if strings.HasPrefix(line, "gpipebench: ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	if len(lines) != 1 {
		r.Fatalf("%d lines about the reason:\n%s", len(lines), r.said)
	}
	return lines[0]
}

// allEnd waits until none of some processes lives.
func allEnd(t *testing.T, pids []int) {
	t.Helper()
	until(t, fmt.Sprintf("end of all processes %v", pids), func() bool { return !slices.ContainsFunc(pids, lives) })
}

// specOf is an experiment's spec.
func specOf(id string) string {
	all := experiments.List()
	return all[slices.IndexFunc(all, func(d lab.Definition) bool { return d.ID == id })].Spec()
}

// changed writes an experiment's spec with changes, pairs of old and new texts, to a file.
func changed(t *testing.T, id string, changes ...string) (file string) {
	t.Helper()
	spec := specOf(id)
	for i := 0; i < len(changes); i += 2 {
		testkit.Has(t, spec, changes[i])
		spec = strings.Replace(spec, changes[i], changes[i+1], 1) // that of smoke comes first
	}
	file = filepath.Join(t.TempDir(), "spec.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte(spec), 0o600))
	return file
}

// nothingLeft fails if a directory is not empty.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left := testkit.Must(os.ReadDir(dir))(t)
	for _, f := range left {
		t.Errorf("%s is left", f.Name())
	}
}
