//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
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

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/files"
)

// phase is a part of a run that tests aim at.
type phase struct {
	name  string
	flags string // of a training that is long enough in it
	says  string // what a line about a loss there has one of, with bars between
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
	// A forward pass of some hundred milliseconds follows a step at once, whose last message may be on its way.
	{"forward", "--layers=4 --dim=128 --ff=512 --heads=4 --seq=128 --batch=48 --eval-every=0", "step 1: |step 2: ", func(a *aim) func() {
		a.await("a step", func() bool { return rowsIn(a.log) > 0 })
		return func() {}
	}},
	// All but one wait for its gradients.
	{"reduction", "--eval-every=0", "step ", func(a *aim) func() {
		a.await("a step", func() bool { return rowsIn(a.log) > 0 })
		release := a.hold(1)
		rest := slices.Delete(slices.Clone(a.ranks), 1, 2)
		a.await("wait of the others", func() bool {
			before := ticks(a.T, rest)
			time.Sleep(300 * time.Millisecond)
			return ticks(a.T, rest) == before
		})
		return release
	}},
	// Rank 0 writes, and all compute, or copy the next state.
	{"snapshot", "--dim=256 --ff=1024 --eval-every=0 --snapshot-every=1", "", func(a *aim) func() {
		a.await("a snapshot", func() bool {
			entries, _ := os.ReadDir(a.snapshots) // an error: it is not there yet
			return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() && files.Unfinished(e.Name()) })
		})
		return func() {}
	}},
	// The log has a step before its evaluation, which takes a second and begins by comparing replicas.
	{"evaluation", "--eval-every=1 --data=text:{text}", "evaluation: |comparing replicas: ", func(a *aim) func() {
		a.await("a step", func() bool { return rowsIn(a.log) > 0 })
		return func() {}
	}},
}

// aimAt makes the files of a run and returns its flags.
func (p phase) aimAt(t *testing.T) (*aim, []string) {
	dir := t.TempDir()
	a := &aim{T: t, log: filepath.Join(dir, "log.csv"), snapshots: filepath.Join(dir, "snapshots")}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("all work and no play "), 20_000), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := strings.Fields(strings.ReplaceAll(p.flags, "{text}", text) + " --log=" + a.log)
	if strings.Contains(p.flags, "--snapshot") {
		flags = append(flags, "--snapshot-dir="+a.snapshots)
	}
	return a, flags
}

func (a *aim) await(what string, is func() bool) {
	a.Helper()
	for start := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 2*time.Minute || !slices.ContainsFunc(a.ranks, lives) {
			a.Fatalf("no %s", what)
		}
	}
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

// ticks is the processor time that processes have used, in the kernel's unit.
func ticks(t *testing.T, pids []int) (sum int) {
	t.Helper()
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(after)[11:13] { // user and system, see proc(5)
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// A rank that is killed or stopped in any phase of a run ends it with one line, which names
// the rank, what it ran, and the cause. It comes from rank 0 or, if that is the victim, from
// the launcher. No process and no file is left, and no snapshot is half-written.
func TestLostInPhases(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for time limits")
	}
	for _, p := range phases {
		for name, signal := range map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP} {
			for _, victim := range []int{2, 0} {
				t.Run(fmt.Sprint(p.name, "-", name, victim), func(t *testing.T) {
					t.Parallel() // most wait for a time limit
					a, flags := p.aimAt(t)
					r := launchThree(t, nil, flags...)
					a.ranks = r.ranks
					release := p.reach(a)
					if err := syscall.Kill(r.ranks[victim], signal); err != nil {
						t.Fatal(err)
					}
					release()
					want := []string{fmt.Sprintf("rank %d", victim)}
					switch {
					case signal == syscall.SIGKILL && victim == 0:
						want = []string{"gpipebench: rank 0 was ended by a signal (9, killed)"}
					case p.name == "rendezvous":
					case signal == syscall.SIGKILL:
						want = []string{"gpipebench: ", p.says, "rank 2 (replica 2, on ", "is gone: its connection was "}
					case victim == 0:
						want = []string{"gpipebench: rank 1 ended early", p.says, "rank 0 (replica 0, on ", "is gone: it has been silent for 3 s"}
					default:
						want = []string{"gpipebench: ", p.says, "rank 2 (replica 2, on ", "is gone: it has been silent for 3 s"}
					}
					says(t, r.ends(1), want)
					noneHalf(t, a.snapshots)
				})
			}
		}
	}
}

// An interrupt of one rank in the middle of an evaluation ends all there, with a snapshot of
// the step before it; the evaluation is made again by what goes on.
func TestInterruptEvaluation(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	p := phases[slices.IndexFunc(phases, func(p phase) bool { return p.name == "evaluation" })]
	a, flags := p.aimAt(t)
	r := launchThree(t, nil, append(flags, "--snapshot-dir="+a.snapshots)...)
	a.ranks = r.ranks
	p.reach(a)
	if err := syscall.Kill(r.ranks[2], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if step := interruptedAfter(t, r.ends(1), a.snapshots); step != 1 || rowsIn(a.log) != 1 {
		t.Errorf("interrupted after step %d with %d rows in the log, want 1 and 1", step, rowsIn(a.log))
	}
}

// Two ranks whose connections are closed, or carry nothing any more, in any phase of a run
// end with a line each, which names the other, what it ran, and the cause.
func TestCutInPhases(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for time limits")
	}
	for _, p := range phases {
		for how, cut := range map[string]func(*proxy){"closed": (*proxy).close, "blackholed": (*proxy).swallow} {
			t.Run(p.name+"-"+how, func(t *testing.T) {
				t.Parallel()
				a, flags := p.aimAt(t)
				address := freeAddress(t)
				between := newProxy(t, address)
				if p.name == "rendezvous" {
					cut(between)
				}
				temporary := t.TempDir()
				var all sync.WaitGroup
				var cmds [2]*exec.Cmd
				var said [2]bytes.Buffer
				for rank, address := range []string{address, between.Addr().String()} {
					cmds[rank] = command(t, temporary, strings.Join(slices.Concat(strings.Fields("train --replicas=2 -m=1 --steps=1000000"), tiny, flags), " "))
					cmds[rank].Env = append(cmds[rank].Env,
						cluster.RankVariable+"="+strconv.Itoa(rank), cluster.SizeVariable+"=2", cluster.AddressVariable+"="+address,
						cluster.SecretVariable+"=a secret of this test's own", cluster.TimeoutVariable+"=3s")
					cmds[rank].Stderr = &said[rank]
					if err := cmds[rank].Start(); err != nil {
						t.Fatal(err)
					}
					a.ranks = append(a.ranks, cmds[rank].Process.Pid)
				}
				late := time.AfterFunc(5*time.Minute, func() {
					for _, c := range cmds {
						c.Process.Kill()
					}
				})
				if p.name != "rendezvous" {
					release := p.reach(a)
					cut(between)
					release()
				}
				for _, c := range cmds {
					all.Go(func() { _ = c.Wait() }) // its state is looked at
				}
				all.Wait()
				if !late.Stop() {
					t.Errorf("not ended within five minutes")
				}
				for rank, c := range cmds {
					other := 1 - rank
					want := []string{fmt.Sprintf("rank %d (replica %d, on ", other, other), "is gone: ", p.says}
					if p.name == "rendezvous" {
						want = []string{fmt.Sprintf("rank %d", other), "within 3 s"}
					}
					var lines []string
					for line := range strings.Lines(said[rank].String()) {
						if strings.HasPrefix(line, "gpipebench: ") {
							lines = append(lines, line)
						}
					}
					if status := c.ProcessState.ExitCode(); status != 1 || len(lines) != 1 {
						t.Fatalf("rank %d: status %d after\n%s", rank, status, said[rank].String())
					}
					says(t, lines[0], want)
				}
				nothingLeft(t, temporary)
				noneHalf(t, a.snapshots)
			})
		}
	}
}

// says fails if a line has none of the texts of one of the parts, with bars between.
func says(t *testing.T, line string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !slices.ContainsFunc(strings.Split(part, "|"), func(text string) bool { return strings.Contains(line, text) }) {
			t.Errorf("says %q, want %q", line, part)
		}
	}
}

// noneHalf fails if a directory of snapshots has a damaged one.
func noneHalf(t *testing.T, dir string) {
	t.Helper()
	steps, err := snapshot.Steps(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if _, err := snapshot.Open(snapshot.Name(dir, step)); err != nil {
			t.Error(err)
		}
	}
}

// freeAddress is a loopback address at which nothing listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// proxy passes on bytes between an address and those who come, until it is cut.
type proxy struct {
	net.Listener
	mu          sync.Mutex
	held        []net.Conn
	closed, cut bool
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
