//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpipebench/experiments/launch"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/snapshot"
	"gpipebench/train"
)

// outcome of a training as JSON.
func outcomeOf(t *testing.T, args ...string) *train.Result {
	t.Helper()
	status, out, said := execute(t, append(args, "--json")...)
	r := &train.Result{}
	if err := json.Unmarshal([]byte(out), r); status != 0 || err != nil {
		t.Fatalf("%v: status %d, %v: %.500q\n%s", args, status, err, out, said)
	}
	return r
}

// What is trained by several processes has the bits and the report of one process; rank
// 0 alone prints and writes.
func TestLaunch(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(asCommand, "1")
	t.Setenv("TMPDIR", t.TempDir())
	for i, c := range []struct {
		processes int
		flags     string
		travels   string
	}{
		{2, "--replicas 2 -m 2 --ema 0.9", "gradients to add up, sums of gradients"},
		{2, "-k 2 -m 4 --schedule dualpipe-v", "activations, gradients"},
		{4, "--replicas 2 -k 2 -m 2 --shard-update --schedule interleaved", "activations, gradients, gradients to add up, updated weights"},
		{3, "--replicas 2 -k 2 -m 1 --spread stage --schedule 1f1b", "activations, gradients, gradients to add up, sums of gradients"},
	} {
		dir := t.TempDir()
		training := append([]string{"train"}, tiny...)
		training = append(training, strings.Fields("--steps 5 --eval-every 2 "+c.flags)...)
		file := func(name string) []string {
			return []string{"--save", filepath.Join(dir, name+".safetensors"), "--log", filepath.Join(dir, name+".csv"), "--trace", filepath.Join(dir, name+".json")}
		}
		one := outcomeOf(t, slices.Concat(training, file("one"))...)
		network := []string{"unix", "tcp"}[i%2]
		several := outcomeOf(t, slices.Concat([]string{"launch", "--network", network, "-n", strconv.Itoa(c.processes), "--"}, training, file("several"))...)
		if len(several.Processes) != c.processes || len(one.Processes) != 0 {
			t.Errorf("%s: processes %+v", c.flags, several.Processes)
		}
		for rank, p := range several.Processes {
			if p.Rank != rank || p.Host == "" || p.Places == "" || p.MaxRSSBytes == 0 || p.ClockWithin < 0 || p.ClockWithin > 1 {
				t.Errorf("%s: rank %d: %+v", c.flags, rank, p)
			}
		}
		kinds := map[string]bool{}
		for _, of := range several.Traffic {
			kinds[of.What] = true
			if of.Bytes != of.PlannedBytes || of.Bytes == 0 || of.Messages == 0 || of.Seconds < 0 || of.Seconds > 10 {
				t.Errorf("%s: %+v", c.flags, of)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(kinds)), ", "); got != c.travels || one.Traffic != nil {
			t.Errorf("%s: from process to process travel %s, want %s; in one %v", c.flags, got, c.travels, one.Traffic)
		}
		// In one process replicas read each other's gradients in place, which takes less memory.
		for i, peak := range several.PeakBytes {
			if peak != several.HighWaterBytes[i] || one.PeakBytes[i] != one.HighWaterBytes[i] || peak < one.PeakBytes[i] {
				t.Errorf("%s: device %d has planned %d bytes and used %d, in one process %d and %d", c.flags, i, peak, several.HighWaterBytes[i], one.PeakBytes[i], one.HighWaterBytes[i])
			}
		}
		same := func(r *train.Result) string {
			return fmt.Sprint(r.WeightsSHA256, r.InitialSHA256, r.EMASHA256, r.Losses, r.Evals, *r.Eval, r.Partition)
		}
		if got, want := same(several), same(one); got != want {
			t.Errorf("%s: %d processes have\n%s\none\n%s", c.flags, c.processes, got, want)
		}
		weights := func(name string) string {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		if weights("one.safetensors") != weights("several.safetensors") {
			t.Errorf("%s: other weights are saved", c.flags)
		}
		if one, several := weights("one.csv"), weights("several.csv"); strings.Count(one, "\n") != strings.Count(several, "\n") {
			t.Errorf("%s: logs\n%s\n%s", c.flags, one, several)
		}
		if !strings.Contains(weights("several.json"), "traceEvents") {
			t.Errorf("%s: no trace", c.flags)
		}
	}
	nothingLeft(t, os.TempDir())
}

func TestLaunchBench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(asCommand, "1")
	status, out, said := execute(t, append(strings.Fields("launch -n 2 -- bench --steps 2 --warmup 1 --replicas 2"), tiny...)...)
	if status != 0 || !strings.Contains(out, "rank 1 on ") || !strings.Contains(out, "replica 1, resident memory at most") || !strings.Contains(out, "clock known within") || !strings.Contains(out, "from process to process: sums of gradients, ") {
		t.Errorf("status %d\n%s\n%s", status, out, said)
	}
	status, _, said = execute(t, append(strings.Fields("launch -n 2 -- bench --steps 2 --by-op --replicas 2"), tiny...)...)
	if status != 2 || !strings.Contains(said, "times by operation of several processes") {
		t.Errorf("status %d, %s", status, said)
	}
}

// nothingLeft fails if a directory is not empty.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		t.Errorf("%s is left", f.Name())
	}
}

// children are a process's children, in the order in which they were started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		after := text[bytes.LastIndexByte(text, ')')+1:]
		fields := strings.Fields(string(after))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// launchedRun is a launcher that runs by itself, with three ranks.
type launchedRun struct {
	*testing.T
	cmd       *exec.Cmd
	temporary string
	ranks     []int // their processes
	read      chan bool

	mu    sync.Mutex
	lines []string // on standard error
}

// launchThree starts a training that would take days, with more flags of the launcher and
// of the training.
func launchThree(t *testing.T, launcher []string, flags ...string) *launchedRun {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &launchedRun{T: t, temporary: t.TempDir(), read: make(chan bool)}
	training := strings.Fields("-- train --replicas 3 -m 1 --steps 1000000 --eval-every 2")
	r.cmd = exec.Command(executable, slices.Concat([]string{"launch", "-n", "3", "--timeout", "3s"}, launcher, training, tiny, flags)...)
	r.cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+r.temporary)
	errs, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.read)
		for s := bufio.NewScanner(errs); s.Scan(); {
			r.mu.Lock()
			r.lines = append(r.lines, s.Text())
			r.mu.Unlock()
		}
	}()
	for len(r.ranks) < 3 {
		time.Sleep(time.Millisecond)
		r.ranks = children(t, r.cmd.Process.Pid)
	}
	return r
}

// await waits for a text on standard error.
func (r *launchedRun) await(text string) {
	r.Helper()
	for range 6000 {
		r.mu.Lock()
		said := strings.Contains(strings.Join(r.lines, "\n"), text)
		r.mu.Unlock()
		if said {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Errorf("no %q within a minute", text)
}

// ends waits for the end, which must leave no process and no file, and returns the one
// line about the reason.
func (r *launchedRun) ends(status int) string {
	r.Helper()
	ended := make(chan error, 1)
	go func() {
		<-r.read
		ended <- r.cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		r.cmd.Process.Kill()
		r.Fatalf("the run has not ended within a minute:\n%s", strings.Join(r.lines, "\n"))
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.Errorf("status %d, want %d", got, status)
	}
	left := r.ranks
	for range 500 {
		left = slices.DeleteFunc(slices.Clone(left), func(pid int) bool { return !lives(pid) })
		if len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		r.Errorf("processes %v are left", left)
	}
	nothingLeft(r.T, r.temporary)
	if status < 0 {
		return "" // the launcher was killed, and no process can say anything
	}
	said := slices.DeleteFunc(slices.Clone(r.lines), func(line string) bool { return !strings.HasPrefix(line, "gpipebench: ") })
	if len(said) != 1 {
		r.Fatalf("%d lines about the reason:\n%s", len(said), strings.Join(r.lines, "\n"))
	}
	return said[0]
}

// Signals to ranks and to the launcher end the whole run with one line, and leave no process
// and no file. TestLostInPhases has those that aim at a part of the run.
func TestLaunchFails(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for time limits")
	}
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		rank   int // -1: the launcher
		behind string
		says   []string
		status int
	}{
		{"kill rank 2 at once", syscall.SIGKILL, 2, "", []string{"gpipebench: ", "rank 2"}, 1},
		{"terminate rank 1", syscall.SIGTERM, 1, "step 2/", []string{"gpipebench: ", "rank 1"}, 1},
		{"terminate the launcher", syscall.SIGTERM, -1, "step 2/", []string{"gpipebench: interrupted"}, 1},
		{"kill the launcher", syscall.SIGKILL, -1, "step 2/", nil, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := launchThree(t, nil)
			if c.behind != "" {
				r.await(c.behind)
			}
			pid := r.cmd.Process.Pid
			if c.rank >= 0 {
				pid = r.ranks[c.rank]
			}
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Fatal(err)
			}
			said := r.ends(c.status)
			for _, part := range c.says {
				if !strings.Contains(said, part) {
					t.Errorf("says %q, want %q", said, part)
				}
			}
		})
	}
}

// An interrupt of the launcher, or of any process, ends all after the same step, with a
// snapshot of it and a line that says how to go on; what goes on from there has the bits of
// a training that was never stopped.
func TestInterruptTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	// This ssh's own end does not end what it has started, and it hands on no signal.
	ssh := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(ssh, []byte("#!/bin/sh\nshift 3\nsh -c \"$*\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		signal   syscall.Signal
		rank     int // -1: the launcher
		launcher []string
	}{
		{"INT to the launcher", syscall.SIGINT, -1, nil},
		{"TERM to the launcher", syscall.SIGTERM, -1, nil},
		{"TERM to rank 2", syscall.SIGTERM, 2, nil},
		{"INT to rank 0", syscall.SIGINT, 0, nil},
		{"TERM to the launcher on hosts", syscall.SIGTERM, -1, []string{"--ssh", ssh, "--hosts", hosts}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "snapshots")
			r := launchThree(t, c.launcher, "--ema=0.9", "--shard-update", "--snapshot-dir="+dir, "--snapshot-every=1000000")
			r.await("step 2/")
			pid := r.cmd.Process.Pid
			if c.rank >= 0 {
				pid = r.ranks[c.rank]
			}
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Fatal(err)
			}
			step := interruptedAfter(t, r.ends(1), dir)
			training := slices.Concat([]string{"train", "--groups=3", "-m=1", "--ema=0.9", "--eval-every=2", "--lr-schedule=inverse-sqrt:200", "--steps=" + strconv.Itoa(step+3)}, tiny)
			whole := outcomeOf(t, training...)
			again := outcomeOf(t, append(training, "-k=2", "--snapshot-dir="+dir, "--resume")...)
			if again.ResumedAt != step || again.WeightsSHA256 != whole.WeightsSHA256 || again.EMASHA256 != whole.EMASHA256 || !slices.Equal(again.Losses, whole.Losses) || fmt.Sprint(again.Evals) != fmt.Sprint(whole.Evals) {
				t.Errorf("goes on after step %d, want %d, to\n%+v\nwant\n%+v", again.ResumedAt, step, again, whole)
			}
		})
	}
}

// interruptedAfter returns the step that a line about an interrupt names, whose snapshot
// must be the newest.
func interruptedAfter(t *testing.T, said, dir string) (step int) {
	t.Helper()
	var steps int
	if _, err := fmt.Sscanf(said, "gpipebench: interrupted after step %d of %d;", &step, &steps); err != nil ||
		!strings.HasSuffix(said, "; the same command with --resume goes on from there, by the snapshot in "+dir+"; no file is left half-written") {
		t.Fatalf("%q, %v", said, err)
	}
	s, damaged, err := snapshot.Newest(dir)
	if err != nil || len(damaged) > 0 || s.Step != step {
		t.Fatalf("%v, %v, %v: want the snapshot of step %d", s, damaged, err, step)
	}
	return step
}

// The same at any moment: coming together, computing, adding up, evaluating.
func TestLaunchFailsAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for time limits")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	for i := range 8 {
		r := launchThree(t, nil)
		rank, signal, after := draw.IntN(3), syscall.SIGKILL, time.Duration(draw.IntN(1500))*time.Millisecond
		if i%4 == 3 {
			signal = syscall.SIGSTOP
		}
		time.Sleep(after)
		if err := syscall.Kill(r.ranks[rank], signal); err != nil {
			t.Fatal(err)
		}
		if said := r.ends(1); !strings.Contains(said, fmt.Sprintf("rank %d", rank)) {
			t.Errorf("rank %d, %v after %v: says %q", rank, signal, after, said)
		}
	}
}

// lives reports whether there is a process that has not ended.
func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(text[bytes.LastIndexByte(text, ')')+1:]), " Z")
}

// Processes that another engine has started find each other by their environment. What
// differs is said once, before the first step.
func TestEngineStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(temporary string, rank int, args ...string) (out string, said string, status int) {
		c := exec.Command(executable, append([]string{"train", "--replicas", "2", "-m", "2", "--steps", "2", "--json"}, args...)...)
		c.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temporary,
			"RANK="+strconv.Itoa(rank), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500")
		var o, e bytes.Buffer
		c.Stdout, c.Stderr = &o, &e
		_ = c.Run()
		return o.String(), e.String(), c.ProcessState.ExitCode()
	}
	both := func(first, second []string) (outs, errs [2]string, status [2]int) {
		temporary := t.TempDir()
		var all sync.WaitGroup
		for rank, args := range [][]string{first, second} {
			all.Go(func() { outs[rank], errs[rank], status[rank] = start(temporary, rank, slices.Concat(tiny, args)...) })
		}
		all.Wait()
		nothingLeft(t, temporary)
		return outs, errs, status
	}
	outs, errs, status := both(nil, nil)
	if status != [2]int{} || !strings.Contains(outs[0], `"weights_sha256"`) || outs[1] != "" || errs[1] != "" {
		t.Errorf("status %v, out %q, err %q", status, outs, errs)
	}
	data := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(data, bytes.Repeat([]byte("all work and no play "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, other := range map[string][]string{
		"rank 1 on ": {"--seed", "2"},
		`has another --seed than rank 0: "2", rank 0 "1"`: {"--seed", "2"},
		"has another --lr than rank 0":                    {"--lr", "0.1"},
		"has another --data than rank 0":                  {"--data", "text:" + data},
	} {
		_, errs, status := both(nil, other)
		if status != [2]int{1, 1} || !strings.Contains(errs[0], says) || errs[1] != "" {
			t.Errorf("%v: status %v, says %q, want %q", other, status, errs, says)
		}
	}
	// A wrong flag is every rank's, and rank 0 says so.
	if _, errs, status := both([]string{"-k", "0"}, []string{"-k", "0"}); status != [2]int{2, 2} || errs[1] != "" || strings.Count(errs[0], "\n") != 1 {
		t.Errorf("status %v, says %q", status, errs)
	}
	if _, errs, status := both([]string{"--device", "emulated"}, []string{"--device", "emulated"}); status != [2]int{2, 2} || !strings.Contains(errs[0], "want host devices") {
		t.Errorf("status %v, says %q", status, errs)
	}
}

// MPI's own programs start processes, where they are installed.
func TestMPIStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	training := slices.Concat([]string{"train", "--replicas", "2", "-m", "2", "--steps", "3"}, tiny)
	want := outcomeOf(t, training...).WeightsSHA256
	found := 0
	for name, flags := range map[string][]string{"mpirun.openmpi": {"--oversubscribe", "-n", "2"}, "mpirun.mpich": {"-n", "2"}} {
		mpirun, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		found++
		c := exec.Command(mpirun, slices.Concat(flags, []string{executable}, training, []string{"--json"})...)
		c.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+t.TempDir(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		r := &train.Result{}
		if err := errors.Join(err, json.Unmarshal(out, r)); err != nil || r.WeightsSHA256 != want || len(r.Processes) != 2 {
			t.Errorf("%s: %v, %s, want %s, processes %+v\n%s", name, err, r.WeightsSHA256, want, r.Processes, said.String())
		}
	}
	if found == 0 {
		t.Skip("neither Open MPI nor MPICH is installed")
	}
}

// Commands for one process are refused where an engine has started several; those that
// only print do so once.
func TestEngineStartsOthers(t *testing.T) {
	t.Setenv(cluster.RankVariable, "1")
	t.Setenv(cluster.SizeVariable, "2")
	t.Setenv(cluster.AddressVariable, "unix:"+t.TempDir()+"/x")
	if status, out, said := execute(t, "version"); status != 0 || out+said != "" {
		t.Errorf("version of rank 1: status %d, %q, %q", status, out, said)
	}
	t.Setenv(cluster.RankVariable, "0")
	if status, _, said := execute(t, "table2"); status != 2 || !strings.Contains(said, "table2 runs in one process, and gpipebench has started 2: want train or bench there") {
		t.Errorf("table2: status %d, %q", status, said)
	}
	t.Setenv(cluster.TimeoutVariable, "1s")
	if status, _, said := execute(t, append([]string{"train", "--replicas", "2", "-m", "2"}, tiny...)...); status != 1 || !strings.Contains(said, "rank 1 of 2 did not come to ") {
		t.Errorf("alone: status %d, %q", status, said)
	}
	if status, _, said := execute(t, append([]string{"train"}, tiny...)...); status != 2 || !strings.Contains(said, "2 processes for a pipeline of 1 replicas x 1 partitions") {
		t.Errorf("one device: status %d, %q", status, said)
	}
	t.Setenv(cluster.RankVariable, "2")
	if status, _, said := execute(t, "train"); status != 2 || !strings.Contains(said, `GPIPEBENCH_RANK="2" in the environment`) {
		t.Errorf("a rank of none: status %d, %q", status, said)
	}
}

// With hosts, processes are started by ssh: here by a program in its place, which runs
// the command on this machine.
func TestLaunchOnHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(asCommand, "1")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ssh := write("ssh", "#!/bin/sh\necho \"$@\" >>"+dir+"/calls\nshift 3\nexec sh -c \"$*\"\n", 0o700)
	hosts := write("hosts", "# two machines\n127.0.0.1 slots=1\nlocalhost\n", 0o600)
	training := append([]string{"train", "--replicas", "2", "-m", "2", "--steps", "3"}, tiny...)
	one := outcomeOf(t, training...)
	several := outcomeOf(t, slices.Concat([]string{"launch", "-n", "2", "--ssh", ssh, "--hosts", hosts, "--"}, training)...)
	if one.WeightsSHA256 != several.WeightsSHA256 || len(several.Processes) != 2 {
		t.Errorf("%s, %s, %+v", one.WeightsSHA256, several.WeightsSHA256, several.Processes)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || strings.Count(string(calls), "BatchMode=yes 127.0.0.1 cd ") != 1 || strings.Count(string(calls), "BatchMode=yes localhost cd ") != 1 {
		t.Errorf("%s, %v", calls, err)
	}
	if status, _, said := execute(t, slices.Concat([]string{"launch", "-n", "2", "--ssh", filepath.Join(dir, "none"), "--hosts", hosts, "--"}, training)...); status != 1 || !strings.Contains(said, "rank 0 on 127.0.0.1 does not start: ") {
		t.Errorf("without ssh: status %d, %q", status, said)
	}
	for text, says := range map[string]string{
		"":                 "no hosts",
		"a b c\n":          `hosts:1: "a b c": want a host`,
		"x\na slots=0\n":   `hosts:2: "a slots=0"`,
		"-oProxyCommand\n": "want a host",
		"a slots=1\n":      "2 processes on hosts with 1 slots",
	} {
		if status, _, said := execute(t, slices.Concat([]string{"launch", "-n", "2", "--hosts", write("hosts", text, 0o600), "--"}, training)...); status != 2 || !strings.Contains(said, says) {
			t.Errorf("%q: status %d, %q, want %q", text, status, said, says)
		}
	}
}

// A process that the launcher did not order does nothing.
func TestRankAlone(t *testing.T) {
	if _, _, err := launch.Obey(t.Context(), strings.NewReader("what\n")); err == nil {
		t.Error("obeyed")
	}
}
