//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpipebench/gpipe/cluster"
	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// What is trained by several processes has the bits and the report of one process; rank
// 0 alone prints and writes.
func TestLaunch(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		processes int
		flags     string
		travels   string
	}{
		{2, "--replicas 2 -m 2 --ema 0.9", "gradients to add up, sums of gradients"},
		{2, "-k 2 -m 4 --schedule dualpipe-v", "activations, gradients"},
		{4, "--replicas 2 -k 2 -m 2 --zero 1 --schedule interleaved", "activations, gradients, gradients to add up, updated weights"},
		{3, "--replicas 2 -k 2 -m 1 --spread stage --schedule 1f1b", "activations, gradients, gradients to add up, sums of gradients"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			if i > 1 {
				testkit.CI(t)
			}
			t.Parallel()
			dir, temporary := t.TempDir(), t.TempDir()
			training := "train " + strings.Join(tiny, " ") + " --steps 5 --eval-every 2 " + c.flags
			file := func(name string) string {
				return fmt.Sprintf(" --save %[1]s.safetensors --log %[1]s.csv --trace %[1]s.json", filepath.Join(dir, name))
			}
			one := decodedJSON[*train.Result](t, strings.Fields(training+file("one"))...)
			network := []string{"unix", "tcp"}[i%2]
			several := trained(t, command(temporary, fmt.Sprintf("launch --network %s -n %d -- %s", network, c.processes, training+file("several"))))
			if len(several.Processes) != c.processes || len(one.Processes) != 0 {
				t.Errorf("processes %+v", several.Processes)
			}
			for rank, p := range several.Processes {
				if p.Rank != rank || p.Host == "" || p.Places == "" || p.MaxRSSBytes == 0 || p.ClockWithin < 0 {
					t.Errorf("rank %d: %+v", rank, p)
				}
			}
			kinds := map[string]bool{}
			for _, of := range several.Traffic {
				kinds[of.What] = true
				if of.Bytes != of.PlannedBytes || of.Bytes == 0 || of.Messages == 0 || of.Seconds < 0 {
					t.Errorf("%+v", of)
				}
			}
			if got := strings.Join(slices.Sorted(maps.Keys(kinds)), ", "); got != c.travels || one.Traffic != nil {
				t.Errorf("from process to process travel %s, want %s; in one %v", got, c.travels, one.Traffic)
			}
			// In one process replicas read each other's gradients in place, which takes less memory.
			for i, peak := range several.PeakBytes {
				if peak != several.HighWaterBytes[i] || one.PeakBytes[i] != one.HighWaterBytes[i] || peak < one.PeakBytes[i] {
					t.Errorf("device %d has planned %d bytes and used %d, in one process %d and %d", i, peak, several.HighWaterBytes[i], one.PeakBytes[i], one.HighWaterBytes[i])
				}
			}
			testkit.Equal(t, same(several), same(one), "%d processes have", c.processes)
			written := func(name string) string {
				return string(testkit.Must(os.ReadFile(filepath.Join(dir, name)))(t))
			}
			testkit.Equal(t, written("one.safetensors"), written("several.safetensors"), "other weights are saved")
			testkit.Equal(t, strings.Count(written("several.csv"), "\n"), strings.Count(written("one.csv"), "\n"), "lines of the log")
			testkit.Has(t, written("several.json"), "traceEvents")
			nothingLeft(t, temporary)
		})
	}
}

// trained is the outcome of a training in processes.
func trained(t *testing.T, cmd *exec.Cmd) *train.Result {
	t.Helper()
	cmd.Args = append(cmd.Args, "--json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	r := &train.Result{}
	testkit.NoError(t, errors.Join(err, json.Unmarshal(out.Bytes(), r)), "%v, %.500q\n%s", cmd.Args[1:], out.String(), said.String())
	return r
}

// same is what must not depend on how a training is divided.
func same(r *train.Result) string {
	return fmt.Sprint(r.WeightsSHA256, r.InitialSHA256, r.EMASHA256, r.Losses, r.Evals, *r.Eval, r.Partition)
}

func TestLaunchBench(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	var out bytes.Buffer
	cmd := command(t.TempDir(), "launch -n 2 -- bench --steps 2 --warmup 1 --replicas 2", tiny...)
	cmd.Stdout = &out
	start(t, cmd).endsWith(0)
	testkit.Has(t, out.String(), "rank 1 on ", "replica 1, resident memory at most", "clock known within", "from process to process: sums of gradients, ")
	r := start(t, command(t.TempDir(), "launch -n 2 -- bench --steps 2 --by-op --replicas 2", tiny...))
	r.endsWith(2, "times by operation of several processes")
}

// launchedRun is a launcher with three ranks.
type launchedRun struct {
	*running
	temporary string
	ranks     []int // their processes
}

// launchThree starts a training that would take days, with more flags of the launcher and
// of the training.
func launchThree(t *testing.T, launcher string, flags ...string) *launchedRun {
	t.Helper()
	temporary := t.TempDir()
	line := "launch -n 3 " + launcher + " -- train --replicas 3 -m 1 --steps 1000000 --eval-every 2"
	r := &launchedRun{running: start(t, command(temporary, line, slices.Concat(tiny, flags)...)), temporary: temporary}
	r.until("three ranks", func() bool { r.ranks = childrenOf(r.cmd.Process.Pid); return len(r.ranks) == 3 })
	return r
}

// kill sends a signal to a rank, or to the launcher, -1.
func (r *launchedRun) kill(rank int, signal syscall.Signal) {
	r.Helper()
	pid := r.cmd.Process.Pid
	if rank >= 0 {
		pid = r.ranks[rank]
	}
	testkit.NoError(r, syscall.Kill(pid, signal))
}

// ends waits for the end, which must leave no process and no file, and returns the one
// line about the reason.
func (r *launchedRun) ends(status int) string {
	r.Helper()
	r.endsWith(status)
	allEnd(r.T, r.ranks)
	nothingLeft(r.T, r.temporary)
	if status < 0 {
		return "" // the launcher was killed, and no process can say anything
	}
	return r.reason()
}

// Signals to ranks and to the launcher end the whole run with one line, and leave no process
// and no file. TestLostInPhases has those that aim at a part of the run.
func TestLaunchFails(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
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
			t.Parallel()
			r := launchThree(t, "")
			r.await(c.behind)
			r.kill(c.rank, c.signal)
			testkit.Has(t, r.ends(c.status), c.says...)
		})
	}
}

// An interrupt of the launcher, or of any process, ends all after the same step, with a
// snapshot of it and a line that says how to go on; what goes on from there has the bits of
// a training that was never stopped.
func TestInterruptTogether(t *testing.T) {
	t.Parallel()
	// This ssh's own end does not end what it has started, and it hands on no signal.
	ssh := filepath.Join(t.TempDir(), "ssh")
	testkit.NoError(t, os.WriteFile(ssh, []byte("#!/bin/sh\nshift 3\nsh -c \"$*\"\n"), 0o700))
	hosts := filepath.Join(t.TempDir(), "hosts")
	testkit.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1\n"), 0o600))
	for _, c := range []struct {
		name     string
		signal   syscall.Signal
		rank     int // -1: the launcher
		launcher string
	}{
		{"INT to the launcher", syscall.SIGINT, -1, ""},
		{"TERM to the launcher", syscall.SIGTERM, -1, ""},
		{"TERM to rank 2", syscall.SIGTERM, 2, ""},
		{"INT to rank 0", syscall.SIGINT, 0, ""},
		{"TERM to the launcher on hosts", syscall.SIGTERM, -1, "--ssh " + ssh + " --hosts " + hosts},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "TERM to rank 2" {
				testkit.CI(t)
			}
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "snapshots")
			r := launchThree(t, c.launcher, "--ema=0.9", "--zero=1", "--snapshot-dir="+dir, "--snapshot-every=1000000")
			r.await("step 2/")
			r.kill(c.rank, c.signal)
			step := interruptedAfter(t, r.ends(1), dir)
			training := slices.Concat([]string{"train", "--groups=3", "-m=1", "--ema=0.9", "--eval-every=2", "--lr-schedule=inverse-sqrt:200", "--steps=" + strconv.Itoa(step+3)}, tiny)
			whole := decodedJSON[*train.Result](t, training...)
			again := decodedJSON[*train.Result](t, append(training, "-k=2", "--snapshot-dir="+dir, "--resume")...)
			if again.ResumedAt != step || again.WeightsSHA256 != whole.WeightsSHA256 || again.EMASHA256 != whole.EMASHA256 || !slices.Equal(again.Losses, whole.Losses) || fmt.Sprint(again.Evals) != fmt.Sprint(whole.Evals) {
				t.Errorf("goes on after step %d, want %d, to\n%+v\nwant\n%+v", again.ResumedAt, step, again, whole)
			}
		})
	}
}

// MPI's own programs start processes, where they are installed.
func TestMPIStarts(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	training := "train --replicas 2 -m 2 --steps 3 " + strings.Join(tiny, " ")
	want := decodedJSON[*train.Result](t, strings.Fields(training)...).WeightsSHA256
	for name, flags := range map[string]string{"mpirun.openmpi": "--oversubscribe -n 2", "mpirun.mpich": "-n 2"} {
		t.Run(name, func(t *testing.T) {
			mpirun, err := exec.LookPath(name)
			if err != nil {
				t.Skip("not installed")
			}
			t.Parallel()
			cmd := exec.Command(mpirun, strings.Fields(flags+" "+program+" "+training)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			if r := trained(t, cmd); r.WeightsSHA256 != want || len(r.Processes) != 2 {
				t.Errorf("%s, want %s, processes %+v", r.WeightsSHA256, want, r.Processes)
			}
		})
	}
}

// Commands for one process are refused where an engine has started several; those that
// only print do so once.
func TestEngineStartsOthers(t *testing.T) {
	t.Setenv(cluster.RankVariable, "1")
	t.Setenv(cluster.SizeVariable, "2")
	t.Setenv(cluster.AddressVariable, "unix:"+t.TempDir()+"/x")
	out, said := succeeds(t, "version")
	testkit.Equal(t, out+said, "", "version of rank 1")
	t.Setenv(cluster.RankVariable, "0")
	fails(t, 2, "table2 runs in one process, but gpipebench has started 2: want train or bench there", "table2")
	t.Setenv(cluster.TimeoutVariable, "1s") // the limit is what is tested
	fails(t, 1, "rank 1 of 2 did not come to ", append([]string{"train", "--replicas", "2", "-m", "2"}, tiny...)...)
	fails(t, 2, "2 processes for a pipeline of 1 replica x 1 partition: want", append([]string{"train"}, tiny...)...)
	t.Setenv(cluster.RankVariable, "2")
	fails(t, 1, `GPIPEBENCH_RANK="2" in the environment`, "train")
	t.Setenv(cluster.RankVariable, "1") // whose environment may be wrong alone
	t.Setenv(cluster.AddressVariable, "")
	fails(t, 1, "does not tell its processes where rank 0 is", "train")
}

// With hosts, processes are started by ssh: here by a program in its place, which runs
// the command on this machine. One host has other kernels, which gives the same bits.
func TestLaunchOnHosts(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		testkit.NoError(t, os.WriteFile(name, []byte(text), mode))
		return name
	}
	ssh := write("ssh", "#!/bin/sh\necho \"$@\" >>"+dir+"/calls\ncase \"$*\" in *localhost*) export GODEBUG=cpu.avx512f=off,cpu.avx2=off;; esac\nshift 3\nexec sh -c \"$*\"\n", 0o700)
	hosts := write("hosts", "# two machines\n127.0.0.1 slots=1\nlocalhost\n", 0o600)
	training := append([]string{"train", "--replicas", "2", "-m", "2", "--steps", "3"}, tiny...)
	one := decodedJSON[*train.Result](t, training...)
	several := trained(t, command(t.TempDir(), "launch -n 2 --ssh "+ssh+" --hosts "+hosts+" --", training...))
	if one.WeightsSHA256 != several.WeightsSHA256 || len(several.Processes) != 2 {
		t.Errorf("%s, %s, %+v", one.WeightsSHA256, several.WeightsSHA256, several.Processes)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || strings.Count(string(calls), "BatchMode=yes 127.0.0.1 cd ") != 1 || strings.Count(string(calls), "BatchMode=yes localhost cd ") != 1 {
		t.Errorf("%s, %v", calls, err)
	}
	fails(t, 1, "rank 0 on 127.0.0.1 does not start: ", slices.Concat([]string{"launch", "-n", "2", "--ssh", filepath.Join(dir, "none"), "--hosts", hosts, "--"}, training)...)
	for text, says := range map[string]string{
		"":                 "no hosts",
		"a b c\n":          `hosts:1: "a b c": want a host`,
		"x\na slots=0\n":   `hosts:2: "a slots=0"`,
		"-oProxyCommand\n": "want a host",
		"a slots=1\n":      "2 processes on hosts with 1 slots",
	} {
		fails(t, 2, says, slices.Concat([]string{"launch", "-n", "2", "--hosts", write("hosts", text, 0o600), "--"}, training)...)
	}
}

// A process that the launcher did not order does nothing.
func TestRankAlone(t *testing.T) {
	_, _, err := cluster.Obey(t.Context(), strings.NewReader("what\n"))
	testkit.Fails(t, err)
}
