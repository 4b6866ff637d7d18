package experiments

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

const (
	killedDir         = "GPIPEBENCH_TEST_KILLED_DIR"
	killedInProcesses = "GPIPEBENCH_TEST_KILLED_IN_PROCESSES"
)

// TestKilledChild is the process that other tests kill.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("runs only as the child of another test")
	}
	testkit.NoError(t, killedRun(dir, os.Getenv(killedInProcesses) != "").Run(context.Background(), childProgress{}, func(lab.Experiment, *lab.Report) error { return nil }))
}

// killedRun runs by the spec in dir.
func killedRun(dir string, inProcesses bool) Reproducing {
	r := Reproducing{Profile: "smoke", Spec: filepath.Join(dir, "spec.yaml"), Out: dir}
	if inProcesses {
		r.Executable = os.Args[0]
	}
	return r
}

// childProgress reports every step to the parent, that measuring has begun and each sample,
// and goes on when the parent lets it: however busy the machine is, it is killed within
// the run and not after its last sample.
type childProgress struct{ progress.Silent }

func (childProgress) Begin(string, int) { reportStep() }

func (childProgress) Advance(string) { reportStep() }

func reportStep() {
	fmt.Println("step")
	_, _ = os.Stdin.Read(make([]byte, 1)) // an error: no parent holds it any more
}

// killed is a process that a test kills.
type killed struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startKilled(t *testing.T, dir string, inProcesses bool) *killed {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
	c.Env = append(os.Environ(), killedDir+"="+dir)
	if inProcesses {
		c.Env = append(c.Env, killedInProcesses+"=yes")
	}
	in, inErr := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	testkit.NoError(t, errors.Join(inErr, outErr, c.Start()))
	return &killed{c, in, bufio.NewScanner(out)}
}

// steps returns when the process waits in its n-th step from here on, or has ended.
func (k *killed) steps(n int) {
	for k.out.Scan() {
		if k.out.Text() != "step" {
			continue
		}
		if n--; n == 0 {
			return
		}
		k.goOn()
	}
}

func (k *killed) goOn() { _, _ = k.in.Write([]byte{1}) } // an error: it has ended

// A run that is killed ten times at random moments and then finished has all its
// samples, and none twice; so has one whose rounds have processes of their own,
// half of the times with the round's process killed instead.
func TestKilledRuns(t *testing.T) {
	testkit.CI(t)
	t.Run("one process", func(t *testing.T) { killRuns(t, false) })
	t.Run("a process each round", func(t *testing.T) { killRuns(t, true) })
}

func killRuns(t *testing.T, inProcesses bool) {
	dir := t.TempDir()
	smallSpec(t, "breakdown", dir)
	recordsDir := filepath.Join(dir, "records", "breakdown.jsonl")
	size := func() int64 {
		st, err := os.Stat(recordsDir)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	grew := 0
	for i := range 10 {
		before := size()
		child := startKilled(t, dir, inProcesses)
		steps := 1 + random.IntN(3)
		if i < 3 {
			steps = 2 // begun, and one sample: some runs must add to the records
		}
		child.steps(steps)
		child.goOn() // to one sample more, at most
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		if inProcesses && i%2 == 1 && killLastRound(t, dir, child.Process.Pid) {
			child.steps(100) // it ends by itself
		} else {
			_ = child.Process.Kill() // it may have ended
		}
		_ = child.Wait()
		if size() > before {
			grew++
		}
	}
	if t.Logf("%d of 10 runs added samples before they were killed", grew); grew < 2 {
		t.Error("too few for the test to mean something")
	}

	p := &said{}
	var complete *lab.Report
	testkit.NoError(t, killedRun(dir, inProcesses).Run(context.Background(), p, func(_ lab.Experiment, r *lab.Report) error { complete = r; return nil }))
	text := testkit.Must(os.ReadFile(recordsDir))(t)
	times := map[string]int{}
	for line := range bytes.Lines(text) {
		r := testkit.Must(records.DecodeRecord(bytes.TrimSpace(line)))(t, "%q", line)
		if r.Sample != "" {
			times[r.Sample]++
		}
	}
	for name, n := range times {
		testkit.Equal(t, n, 1, "%s is there", name)
	}
	// As many as an undisturbed run has.
	whole := &said{}
	e := smallSpec(t, "breakdown", dir)
	log := records.New(e.Key("smoke"))
	testkit.NoError(t, e.Measure(context.Background(), log, whole))
	for _, name := range log.Names {
		if times[name] == 0 {
			t.Errorf("no %s", name)
		}
	}
	if len(times) != len(log.Names) || complete == nil {
		t.Errorf("%d samples, want %d", len(times), len(log.Names))
	}
}

// killLastRound kills the process of a round that added the last session, if it
// is still the parent's child.
func killLastRound(t *testing.T, dir string, parent int) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "records", "breakdown.jsonl"))
	if err != nil {
		return false
	}
	id := 0
	for line := range bytes.Lines(text) {
		if r, err := records.DecodeRecord(bytes.TrimSpace(line)); err == nil && r.Provenance != nil {
			id = r.Provenance.Process.ID
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil || !bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", parent)) {
		return false
	}
	p, err := os.FindProcess(id)
	return err == nil && p.Kill() == nil
}
