//go:build linux

// Bad inputs and faults. A case is data, in faults/*.yaml: files, a command line, and the
// expected exit status, lines on standard error and output, seconds, and memory. For every case the tests also require: an error is one line,
// the last one, without Go's own words or control characters; no file is left over, changed or
// replaced that the case does not name; no process and no goroutine is left over.
//
// Cases run one after another in the test's process, in which they must leave nothing behind.
// Signals, limits of memory, umasks and standard streams are a process's own, so cases of them
// have one.
//
// A case has its own temporary directory. Device nodes, links, FIFOs and mounts are made there,
// and the program never gets anything else to write to.

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"gpipebench/internal/testkit"
)

//go:embed faults/*.yaml
var cases embed.FS

// patience returns how long by the clock a case may take before it is ended: many times its
// processor time, which is what is judged, since the machine has other work.
func (c *fault) patience() time.Duration {
	return 2*time.Minute + time.Duration(10*c.Seconds*float64(time.Second))
}

// longestLine is the maximum length of an error, in bytes.
const longestLine = 1200

// ours matches words that no line may contain.
var ours = regexp.MustCompile(`panic|goroutine|strconv\.|unmarshal|<nil>|%!|invalid syntax|value out of range|internal error|runtime error|fatal error|stack trace|\.go:\d|reflect\.|interface conversion|(?:^| )(?:json|yaml): |!!(int|str|map|seq|float|bool|null)|\b(experiments|gpipe|lab|main|runtime|nn)\.[A-Za-z]|\b(records|timed|trained|cells|machine|page|claims|simulate|train)\.[A-Z]|0xc0000|unsupported value`)

// TestFaults runs the cases of all files, or with -short those that are marked.
func TestFaults(t *testing.T) {
	repository := testkit.Must(filepath.Abs("../.."))(t)
	// Children inherit that nohup ignores SIGHUP; what is caught is as usual in them.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	n := 0
	for _, f := range testkit.Must(cases.ReadDir("faults"))(t) {
		for _, c := range testkit.Must(loadCases(f.Name(), repository))(t) {
			if n++; testing.Short() && !c.Short || !testkit.InShard(n) {
				continue
			}
			t.Run(strings.TrimSuffix(f.Name(), ".yaml")+"/"+c.Name, func(t *testing.T) {
				if c.apart() {
					t.Parallel()
				}
				c.check(t, repository)
			})
		}
	}
}

// faultOutcome is what a run has come to.
type faultOutcome struct {
	status         int
	late           bool          // it was ended
	used           time.Duration // of processors
	bytes          int64         // allocated; 0: a limit was set
	stdout, stderr transcript
	left           string // what it has left behind
}

// check prepares and runs one case and reports every difference from its
// expectations.
func (c *fault) check(t *testing.T, repository string) {
	dir, temporary := t.TempDir(), t.TempDir()
	testkit.NoError(t, c.prepare(t, repository, dir))
	once := (*fault).here
	if c.apart() {
		once = (*fault).inProcess
	} else {
		t.Chdir(dir)
		t.Setenv("TMPDIR", temporary)
	}
	for _, line := range c.Before {
		before := &fault{Run: strings.Fields(strings.ReplaceAll(line, "{tiny}", tinyNetwork)), Umask: c.Umask, Seconds: c.Seconds, MiB: c.MiB}
		if o := once(before, t, dir, temporary); o.status != 0 {
			t.Fatalf("before it, %s: status %d\n%s", line, o.status, o.stderr.String())
		}
	}
	testkit.NoError(t, c.damage(dir))
	was := testkit.Must(look(dir))(t)

	o := once(c, t, dir, temporary)

	stdout, stderr := o.stdout.String(), o.stderr.String()
	show := fmt.Sprintf("gpipebench %s\n%s%s", first(strings.Join(c.Run, " "), 400), first(stdout, 800), first(stderr, 1600))
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n%s", fmt.Sprintf(format, args...), show)
		show = ""
	}
	if o.left != "" {
		wrong("left over: %s", o.left)
	}
	if o.late {
		wrong("not ended %v after its start", c.patience())
		return
	}
	t.Logf("%.3f s of processor time", o.used.Seconds())
	if o.used.Seconds() > c.Seconds {
		wrong("%.1f s of processor time, want at most %g", o.used.Seconds(), c.Seconds)
	}
	if o.bytes>>20 > c.MiB {
		wrong("%d MiB were allocated, want at most %d", o.bytes>>20, c.MiB)
	}
	if o.status != c.Status {
		wrong("exit status %d, want %d", o.status, c.Status)
	}
	if n, of := o.stdout.lines(), o.stderr.lines(); n > c.Stdout || of > c.Stderr {
		wrong("%d lines on standard output and %d on standard error, want at most %d and %d", n, of, c.Stdout, c.Stderr)
	}
	said := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	last := said[len(said)-1]
	if c.Status > 0 && !strings.HasPrefix(last, "gpipebench: ") {
		wrong("the last line is %q, want gpipebench's error", first(last, 200))
	}
	for _, line := range said {
		if w := ours.FindString(line); w != "" {
			wrong("%q in its output", w)
		}
		if len(line) > longestLine {
			wrong("a line of %d bytes, want at most %d", len(line), longestLine)
		}
		if !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) {
			wrong("control characters, or a byte that is not UTF-8, in %q", first(line, 300))
		}
	}
	for _, want := range c.Says {
		if !strings.Contains(last, want) {
			wrong("no %q in its last line", want)
		}
	}
	for _, want := range c.Prints {
		if !strings.Contains(stdout, want) {
			wrong("no %q on its standard output", want)
		}
	}
	for _, no := range c.SaysNot {
		if strings.Contains(stdout+stderr, no) {
			wrong("%q in its output", no)
		}
	}
	is := testkit.Must(look(dir))(t)
	for _, d := range c.differences(was, is) {
		wrong("%s", d)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		wrong("left in the directory for temporary files: %v, %v", left, err)
	}
}

// apart reports whether a case has a process of its own.
func (c *fault) apart() bool {
	if c.Apart || c.Signal != nil || c.Umask != defaults.Umask || c.Stdin != "" || c.StdinFile != "" || c.StdoutFile != "" {
		return true
	}
	for _, f := range c.Files {
		if f.Size > 1<<30 || f.Gzip > 1<<28 { // a program that reads all of it must end before the machine does
			return true
		}
	}
	return false
}

// here runs a case in this process, whose directory is the case's.
func (c *fault) here(t *testing.T, dir, _ string) *faultOutcome {
	o, goroutines, environment, used, allocated := &faultOutcome{}, runtime.NumGoroutine(), os.Environ(), processorTime(t), allocations()
	ctx, stop := context.WithTimeout(t.Context(), c.patience())
	defer stop()
	o.status = run(ctx, c.Run, &o.stdout, &o.stderr)
	o.late = ctx.Err() != nil
	o.used, o.bytes = processorTime(t)-used, allocations()-allocated
	o.left = gone(func() string {
		if n := runtime.NumGoroutine() - goroutines; n > 0 {
			return fmt.Sprintf("%d goroutines", n)
		}
		if len(childrenOf(os.Getpid())) > 0 {
			return "a process"
		}
		return ""
	})
	if now, err := os.Getwd(); now != dir {
		o.left += fmt.Sprintf(" another working directory, %s, %v", now, err)
	}
	if !slices.Equal(os.Environ(), environment) {
		o.left += " another environment"
	}
	return o
}

// processorTime returns what this process and its children that have ended have used.
func processorTime(t *testing.T) (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var of syscall.Rusage
		testkit.NoError(t, syscall.Getrusage(who, &of))
		sum += time.Duration(of.Utime.Nano() + of.Stime.Nano())
	}
	return sum
}

// allocations returns how many bytes this process has allocated so far, with what was
// collected since.
func allocations() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// inProcess runs a case in a process of its own: the program in a shell that sets its limits, in
// a group of processes. The limit on memory is one on what it may map to write to, so that a
// runaway program ends before the machine does.
func (c *fault) inProcess(t *testing.T, dir, temporary string) *faultOutcome {
	o := &faultOutcome{}
	limits := fmt.Sprintf(`ulimit -d %d && umask %s && exec "$0" "$@"`, c.MiB<<10, c.Umask)
	cmd := exec.Command("/bin/sh", append([]string{"-c", limits, program}, c.Run...)...)
	cmd.Dir = dir
	cmd.Env = []string{asCommand + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temporary, "HOME=" + filepath.Join(dir, "..", "home")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute // for what may hold its output open
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Stdin), &o.stdout, &o.stderr
	open := func(name string, flag int) *os.File {
		f := testkit.Must(os.OpenFile(filepath.Join(dir, name), flag, 0))(t)
		t.Cleanup(func() { f.Close() })
		return f
	}
	if c.StdinFile != "" {
		cmd.Stdin = open(c.StdinFile, os.O_RDONLY|syscall.O_NONBLOCK) // does not wait for a writer of a pipe
	}
	if c.StdoutFile != "" {
		cmd.Stdout = open(c.StdoutFile, os.O_WRONLY)
	}
	testkit.NoError(t, cmd.Start())
	group := cmd.Process.Pid
	late := time.AfterFunc(c.patience(), func() { syscall.Kill(-group, syscall.SIGKILL) })
	ctx, ended := context.WithCancel(t.Context())
	if c.Signal != nil {
		go c.Signal.send(ctx, group, &o.stderr)
	}
	_ = cmd.Wait() // its status is looked at
	ended()
	o.late = !late.Stop()
	o.left = gone(func() string { return remaining(group, dir) })
	syscall.Kill(-group, syscall.SIGKILL)
	o.status, o.used = cmd.ProcessState.ExitCode(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	return o
}

// sent is a signal to the program, or to a process that it has started.
type sent struct {
	Name    string  // INT, TERM, HUP, KILL, SEGV or ABRT
	Behind  string  // send it after this substring has appeared on standard error
	Seconds float64 // and after the program has used this much processor time more
	Child   bool    // to its child
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT}

// send waits for the moment and sends the signal, unless ctx ends before.
func (s *sent) send(ctx context.Context, pid int, said *transcript) {
	until := func(what func() bool) bool {
		for ctx.Err() == nil && !what() {
			time.Sleep(time.Millisecond)
		}
		return ctx.Err() == nil // else it has ended, and its number may be another's
	}
	var began float64
	if !until(func() bool { return strings.Contains(said.String(), s.Behind) }) {
		return
	}
	began = secondsOf(pid)
	until(func() bool { return secondsOf(pid)-began >= s.Seconds })
	victim := pid
	if s.Child {
		until(func() bool {
			children := childrenOf(pid)
			if len(children) > 0 {
				victim = children[0]
			}
			return len(children) > 0
		})
	}
	if ctx.Err() == nil {
		syscall.Kill(victim, signals[s.Name])
	}
}

// secondsOf returns the processor time that a process has used, in seconds (proc(5): user and
// system time, in hundredths, are the 14th and 15th field; the second is in parentheses).
func secondsOf(pid int) float64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// gone returns what is left, "" as soon as nothing is: what computes checks only now and then
// whether to stop.
func gone(left func() string) (what string) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if what = left(); what == "" {
			break
		}
	}
	return what
}

// remaining describes processes of a group, or in a directory.
func remaining(group int, dir string) string {
	if syscall.Kill(-group, 0) == nil {
		return "a process of its group"
	}
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is well-formed
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == dir {
			return "a process, " + filepath.Dir(l)
		}
	}
	return ""
}

// differences lists the files that appeared, disappeared or changed although
// they must not, and those that did not although they should.
func (c *fault) differences(was, is map[string]string) []string {
	var all []string
	named := func(names []string, name string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return n == name || strings.HasSuffix(n, "/") && strings.HasPrefix(name+"/", n)
		})
	}
	for name, now := range is {
		before, there := was[name]
		switch {
		case !there && !named(c.Makes, name):
			all = append(all, fmt.Sprintf("%s is left over: %s", name, now))
		case there && now != before && !named(c.Changes, name):
			all = append(all, fmt.Sprintf("%s was %s, now it is %s", name, before, now))
		case there && strings.Fields(now)[0] != strings.Fields(before)[0]:
			all = append(all, fmt.Sprintf("%s was %s, now it is %s", name, before, now))
		case c.Status == 0 && there && now == before && named(c.Changes, name) && !strings.HasPrefix(now, "d"):
			all = append(all, fmt.Sprintf("%s is as it was", name))
		}
	}
	for name := range was {
		if _, there := is[name]; !there {
			all = append(all, name+" is gone")
		}
	}
	for _, name := range c.Makes {
		if _, there := is[strings.TrimSuffix(name, "/")]; !there && c.Status == 0 {
			all = append(all, name+" was not made")
		}
	}
	for name, mode := range c.Modes {
		if got := strings.Fields(is[name] + " -")[0]; got != mode {
			all = append(all, fmt.Sprintf("%s has mode %s, want %s", name, got, mode))
		}
	}
	slices.Sort(all)
	return all
}

// lines counts the lines, including an unfinished one.
func (t *transcript) lines() int {
	t.lock.Lock()
	defer t.lock.Unlock()
	if b := t.b.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' {
		return t.n + 1
	}
	return t.n
}

func first(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + fmt.Sprintf("... (%d bytes)\n", len(s))
}
