//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/snapshot"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/files"
	"gpipebench/internal/testkit"
)

// limited is the time limit of the runs in which it is what ends them: some processes start
// within it on a machine that is busy. Others have the usual one.
const limited = "5s"

// phase is a part of a run that tests aim at.
type phase struct {
	name  string
	flags string // of a training that is long enough in it
	says  string // matches a line about a loss there
	// reach returns when the ranks are in it. One may be held so that others wait for it;
	// release lets it go on.
	reach func(a *aim) (release func())
}

// aim is a run at which a test aims.
type aim struct {
	*testing.T
	log, snapshots string
	ranks          []int // their processes
}

var phases = []phase{
	{"rendezvous", "", "", func(a *aim) func() { return a.hold(1) }},
	// A forward pass of some hundred milliseconds follows a step at once.
	{"forward", "--layers=4 --dim=128 --ff=512 --heads=4 --seq=128 --batch=48 --eval-every=0", `step \d+: `, (*aim).afterStep},
	// All but one wait for its gradients.
	{"reduction", "--eval-every=0", `step \d+: `, func(a *aim) func() {
		a.afterStep()
		release := a.hold(1)
		rest := slices.Delete(slices.Clone(a.ranks), 1, 2)
		asleep := 0 // looks in a row
		a.until("wait of the others", func() bool {
			if asleep++; slices.ContainsFunc(rest, runs) {
				asleep = 0
			}
			return asleep == 10
		})
		return release
	}},
	// Rank 0 writes, and all compute, or copy the next state.
	{"snapshot", "--dim=256 --ff=1024 --eval-every=0 --snapshot-every=1", "", func(a *aim) func() {
		a.until("a snapshot", func() bool {
			entries, _ := os.ReadDir(a.snapshots) // an error: it is not there yet
			return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() && files.Unfinished(e.Name()) })
		})
		return func() {}
	}},
	// The log has a step before its evaluation, which takes ten times as long as a test needs
	// to come, and begins by comparing replicas.
	{"evaluation", "--dim=64 --ff=256 --eval-every=1 --data=text:{text}", "evaluation: |comparing replicas: ", (*aim).afterStep},
}

// aimAt makes the files of a run and returns its flags.
func (p phase) aimAt(t *testing.T) (*aim, []string) {
	dir := t.TempDir()
	a := &aim{T: t, log: filepath.Join(dir, "log.csv"), snapshots: filepath.Join(dir, "snapshots")}
	text := filepath.Join(dir, "text")
	testkit.NoError(t, os.WriteFile(text, bytes.Repeat([]byte("all work and no play "), 20_000), 0o600))
	flags := strings.Fields(strings.ReplaceAll(p.flags, "{text}", text) + " --log=" + a.log)
	if strings.Contains(p.flags, "--snapshot") {
		flags = append(flags, "--snapshot-dir="+a.snapshots)
	}
	return a, flags
}

// until waits for something that comes while ranks live.
func (a *aim) until(what string, is func() bool) {
	a.Helper()
	until(a.T, what, func() bool { return is() || !slices.ContainsFunc(a.ranks, lives) })
	if !slices.ContainsFunc(a.ranks, lives) {
		a.Fatalf("no %s: all ranks have ended", what)
	}
}

// afterStep waits for a step.
func (a *aim) afterStep() (release func()) {
	a.Helper()
	a.until("a step", func() bool { return rowsIn(a.log) > 0 })
	return func() {}
}

// hold stops a rank until release is called.
func (a *aim) hold(rank int) (release func()) {
	a.Helper()
	to := func(s syscall.Signal) {
		if err := syscall.Kill(a.ranks[rank], s); err != nil {
			a.Error(err)
		}
	}
	to(syscall.SIGSTOP)
	return func() { to(syscall.SIGCONT) }
}

// runs reports whether a process has a thread that runs or waits for a processor.
func runs(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is well-formed
	return slices.ContainsFunc(tasks, func(name string) bool {
		stat, _ := os.ReadFile(name) // an error: the thread has ended
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "R")
	})
}

// A rank that is killed or stopped in any phase of a run ends it with one line, which names
// the rank, what it ran, and the cause. It comes from rank 0 or, if that is the victim, from
// the launcher. No process and no file is left, and no snapshot is half-written.
func TestLostInPhases(t *testing.T) {
	t.Parallel()
	for i, p := range phases {
		for signal, name := range map[syscall.Signal]string{syscall.SIGKILL: "kill", syscall.SIGSTOP: "stop"} {
			for _, victim := range []int{2, 0} {
				t.Run(fmt.Sprint(p.name, "-", name, victim), func(t *testing.T) {
					if p.name != "forward" || signal != syscall.SIGKILL {
						testkit.CI(t)
					}
					if victim == 0 != ((i%2 == 0) == (signal == syscall.SIGKILL)) { // each phase once with each of them
						testkit.Deep(t)
					}
					t.Parallel()
					a, flags := p.aimAt(t)
					launcher := ""
					if signal == syscall.SIGSTOP {
						launcher = "--timeout " + limited
					}
					r := launchThree(t, launcher, flags...)
					a.ranks = r.ranks
					release := p.reach(a)
					r.kill(victim, signal)
					release()
					want := []string{fmt.Sprintf("rank %d", victim)}
					switch {
					case signal == syscall.SIGKILL && victim == 0:
						want = []string{"^gpipebench: rank 0 was ended by a signal \\(9, killed\\)"}
					case p.name == "rendezvous":
					case signal == syscall.SIGKILL:
						want = []string{p.says, "rank 2 \\(replica 2, on ", "is gone: its connection was "}
					case victim == 0:
						want = []string{"^gpipebench: rank 1 ended early", p.says, "rank 0 \\(replica 0, on ", "is gone: it has been silent for 5 s"}
					default:
						want = []string{p.says, "rank 2 \\(replica 2, on ", "is gone: it has been silent for 5 s"}
					}
					matches(t, r.ends(1), want)
					noneHalf(t, a.snapshots)
				})
			}
		}
	}
}

// An interrupt of one rank in the middle of an evaluation ends all there, with a snapshot of
// the step before it; the evaluation is made again by what goes on.
func TestInterruptEvaluation(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	p := phases[slices.IndexFunc(phases, func(p phase) bool { return p.name == "evaluation" })]
	a, flags := p.aimAt(t)
	r := launchThree(t, "", append(flags, "--snapshot-dir="+a.snapshots)...)
	a.ranks = r.ranks
	p.reach(a)
	r.kill(2, syscall.SIGTERM)
	if step := interruptedAfter(t, r.ends(1), a.snapshots); step != 1 || rowsIn(a.log) != 1 {
		t.Errorf("interrupted after step %d with %d rows in the log, want 1 and 1", step, rowsIn(a.log))
	}
}

// Two ranks whose connections are closed, or carry nothing any more, in any phase of a run
// end with a line each, which names the other, what it ran, and the cause.
func TestCutInPhases(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	for _, p := range phases {
		for how, cut := range map[string]func(*proxy){"closed": (*proxy).close, "blackholed": (*proxy).swallow} {
			t.Run(p.name+"-"+how, func(t *testing.T) {
				t.Parallel()
				a, flags := p.aimAt(t)
				address := ownAddress()
				between := newProxy(t, address)
				limit := sockets.DefaultLimit.String()
				if how == "blackholed" || p.name == "rendezvous" {
					limit = limited
				}
				if p.name == "rendezvous" {
					cut(between)
				}
				temporary := t.TempDir()
				var ranks [2]*running
				for rank, address := range []string{address, between.Addr().String()} {
					cmd := command(temporary, "train --replicas=2 -m=1 --steps=1000000", slices.Concat(tiny, flags)...)
					cmd.Env = append(cmd.Env,
						cluster.RankVariable+"="+strconv.Itoa(rank), cluster.SizeVariable+"=2", cluster.AddressVariable+"="+address,
						cluster.SecretVariable+"=a secret of this test's own", cluster.TimeoutVariable+"="+limit)
					ranks[rank] = start(t, cmd)
					a.ranks = append(a.ranks, cmd.Process.Pid)
				}
				if p.name != "rendezvous" {
					release := p.reach(a)
					cut(between)
					release()
				}
				for rank, r := range ranks {
					other, says := 1-rank, p.says
					if p.name == "evaluation" && rank > 0 { // rank 0 logs the step, whose last message may be on its way
						says += "|step 1: "
					}
					// A rank that notices first ends its connections: the other may see a line end before
					// the silence.
					want := []string{fmt.Sprintf("rank %d \\(replica %d, on .* is gone: |rank \\d to rank \\d: the line of .* is lost: ", other, other), says}
					if p.name == "rendezvous" {
						want = []string{fmt.Sprintf("rank %d", other), "within 5 s"}
					}
					testkit.Equal(t, r.status(), 1, "rank %d: status", rank)
					matches(t, r.reason(), want)
				}
				nothingLeft(t, temporary)
				noneHalf(t, a.snapshots)
			})
		}
	}
}

// matches fails if a line does not match all of some patterns.
func matches(t *testing.T, line string, patterns []string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(line) {
			t.Errorf("says %q, want %s", line, p)
		}
	}
}

// noneHalf fails if a directory of snapshots has a half-written one, and otherwise counts them.
func noneHalf(t *testing.T, dir string) (n int) {
	t.Helper()
	steps := testkit.Must(snapshot.Steps(dir))(t)
	for _, step := range steps {
		_, err := snapshot.Open(snapshot.Name(dir, step))
		testkit.Equal(t, err, nil, "the snapshot of step %d", step)
	}
	return len(steps)
}

// ownAddress is a loopback address that nothing else has: on Linux a machine has 2^24 of them.
func ownAddress() string {
	pid, n := os.Getpid(), addresses.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:61000", 1+pid>>8%254, pid%256, n)
}

var addresses atomic.Int32

// proxy passes on bytes between an address and those who come, until it is cut.
type proxy struct {
	net.Listener
	mu          sync.Mutex
	held        []net.Conn
	closed, cut bool
}

func newProxy(t *testing.T, to string) *proxy {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{Listener: l}
	t.Cleanup(func() {
		l.Close()
		p.close()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil { // nothing listens there yet, and the caller tries again
				in.Close()
				continue
			}
			p.hold(in, out)
			go p.pass(in, out)
			go p.pass(out, in)
		}
	}()
	return p
}

func (p *proxy) hold(conns ...net.Conn) {
	p.mu.Lock()
	p.held = append(p.held, conns...)
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.close()
	}
}

// close closes all connections, also those that come later.
func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.held {
		c.Close()
	}
}

// swallow loses what comes from now on; connections stay.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
}

func (p *proxy) pass(from, to net.Conn) {
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		cut := p.cut
		p.mu.Unlock()
		switch {
		case !cut && n > 0:
			_, _ = to.Write(b[:n]) // an error: the other side has closed it, and so this one will be
		case !cut:
			to.Close()
		}
		if err != nil {
			return
		}
	}
}
