//go:build linux

// Package faults runs the program with bad inputs and faults. A case is data,
// in *.yaml in this directory: files, a command line, and the expected exit
// status, lines on standard error and output, seconds, and memory. For every
// case the tests also require: an error is one line, the last one, without Go's
// own words or control characters; no file is left over, changed or replaced
// that the case does not name; no process is left over.
//
// A case has its own temporary directory. Device nodes, links, FIFOs and mounts
// are made there, and the program never gets anything else to write to.
package faults

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"gpipebench/internal/machine"
)

// addressSpace is the limit on what a case may map, in KiB, so that a runaway
// program ends before the machine does. The limit on resident memory is the
// case's own.
const addressSpace = 6 << 20

// patience returns how long by the clock a case may take before it is killed: many
// times its processor time, which is what is judged, since the machine has other work.
func (c *fault) patience() time.Duration {
	return 20*time.Second + time.Duration(10*c.Seconds*float64(time.Second))
}

// atWork ends the line that a command prints when its first result takes ten seconds
// by the clock.
const atWork = ": at work; a large network or file takes a while\n"

// longestLine is the maximum length of an error, in bytes.
const longestLine = 1200

// ours matches words that no line may contain.
var ours = regexp.MustCompile(`panic|goroutine|strconv\.|unmarshal|<nil>|%!|invalid syntax|value out of range|internal error|runtime error|fatal error|stack trace|\.go:\d|reflect\.|interface conversion|(?:^| )(?:json|yaml): |!!(int|str|map|seq|float|bool|null)|\b(experiments|gpipe|lab|main|runtime|train|nn)\.[A-Za-z]|\b(records|timed|trained|cells|machine|page|claims|simulate)\.[A-Z]|0xc0000|unsupported value`)

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts it hundreds of times")
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// Without a stamp of the checkout: such a program's report of its origin is
	// a case.
	program := filepath.Join(t.TempDir(), "gpipebench")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/gpipebench")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	total := 0
	building := ofChildren()
	t.Run("cases", func(t *testing.T) {
		for _, name := range files {
			cases, err := load(name, repository)
			if err != nil {
				t.Fatal(err)
			}
			total += len(cases)
			for _, c := range cases {
				t.Run(strings.TrimSuffix(name, ".yaml")+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					c.check(t, program, repository)
				})
			}
		}
	})
	t.Logf("%d cases, %.0f s of processor time", total, (ofChildren() - building).Seconds())
}

// ofChildren returns the processor time of all processes that were started here and
// have ended, and of those that these started.
func ofChildren() time.Duration {
	var of syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &of); err != nil {
		return 0
	}
	return time.Duration(of.Utime.Nano() + of.Stime.Nano())
}

// check prepares and runs one case and reports every difference from its
// expectations.
func (c *fault) check(t *testing.T, program, repository string) {
	dir, temporary := t.TempDir(), t.TempDir()
	readers, err := c.prepare(t, dir, repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range c.Before {
		before := c.command(t.Context(), program, dir, temporary, strings.Fields(strings.ReplaceAll(line, "{tiny}", tiny)))
		if out, err := before.CombinedOutput(); err != nil {
			t.Fatalf("before it, %s: %v\n%s", line, err, out)
		}
	}
	if err := c.damage(dir); err != nil {
		t.Fatal(err)
	}
	was, err := look(dir)
	if err != nil {
		t.Fatal(err)
	}

	cmd := c.command(t.Context(), program, dir, temporary, c.Run)
	stdout, stderr := &text{}, &text{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Stdin = strings.NewReader(c.Stdin)
	if c.StdinFile != "" {
		// Do not wait for a writer of a pipe.
		f, err := os.OpenFile(filepath.Join(dir, c.StdinFile), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	if c.StdoutFile != "" {
		f, err := os.OpenFile(filepath.Join(dir, c.StdoutFile), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdout = f
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	late := time.AfterFunc(c.patience(), func() { syscall.Kill(-group, syscall.SIGKILL) })
	if c.Signal != nil {
		go c.Signal.send(t.Context(), group, stderr)
	}
	_ = cmd.Wait() // its status is checked below
	took := time.Since(started)
	inTime := late.Stop()
	if left := remaining(group, dir); left != "" {
		t.Errorf("left over: %s", left)
	}
	syscall.Kill(-group, syscall.SIGKILL)
	for _, r := range readers {
		r.end()
	}

	show := fmt.Sprintf("gpipebench %s\n%s%s", first(strings.Join(c.Run, " "), 400), first(stdout.String(), 800), first(stderr.String(), 1600))
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n%s", fmt.Sprintf(format, args...), show)
		show = ""
	}
	if !inTime {
		wrong("killed: not ended %v after its start", c.patience())
		return
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%.3f s of processor time in %.3f s", used.Seconds(), took.Seconds())
	if used.Seconds() > c.Seconds {
		wrong("%.1f s of processor time in %.1f s, want at most %g", used.Seconds(), took.Seconds(), c.Seconds)
	}
	if status := cmd.ProcessState.ExitCode(); status != c.Status {
		wrong("exit status %d (%v), want %d", status, cmd.ProcessState, c.Status)
	}
	// The peak is that of the largest of the ended processes, and at least that
	// of this small one, which the kernel counts for its child.
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && usage.Maxrss>>10 > c.MiB {
		wrong("%d MiB resident after %.1f s, want at most %d", usage.Maxrss>>10, took.Seconds(), c.MiB)
	}
	if n := stdout.lines(); !c.Stdout.holds(n) {
		wrong("%d lines on standard output, want %s", n, c.Stdout)
	}
	// A line that only a slow clock brings does not count.
	if n := stderr.lines() - strings.Count(stderr.String(), atWork); !c.Stderr.holds(n) {
		wrong("%d lines on standard error, want %s", n, c.Stderr)
	}
	said := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
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
		if !strings.Contains(stdout.String(), want) {
			wrong("no %q on its standard output", want)
		}
	}
	for _, no := range c.SaysNot {
		if strings.Contains(stdout.String()+stderr.String(), no) {
			wrong("%q in its output", no)
		}
	}
	is, err := look(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.differences(was, is) {
		wrong("%s", d)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		wrong("left in the directory for temporary files: %v, %v", left, err)
	}
	for _, r := range readers {
		if c.Status == 0 && r.got == 0 {
			wrong("%s: nothing was written to it", r.name)
		}
	}
}

// command returns the program's command, in a shell that sets its limits and in
// a process group of its own.
func (c *fault) command(ctx context.Context, program, dir, temporary string, args []string) *exec.Cmd {
	limits := fmt.Sprintf(`ulimit -v %d && umask %s && exec "$0" "$@"`, addressSpace, c.Umask)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", limits, program}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temporary, "HOME=" + filepath.Join(dir, "..", "home")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// signal is a signal to the program, or to a process that it has started.
type signal struct {
	Name    string  // INT, TERM, HUP, KILL, SEGV or ABRT
	Behind  string  // send it after this substring has appeared on standard error
	Seconds float64 // and after the program has used this much processor time more
	Child   bool    // to its child
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT}

func (s *signal) send(ctx context.Context, pid int, said *text) {
	for ctx.Err() == nil && !strings.Contains(said.String(), s.Behind) {
		time.Sleep(2 * time.Millisecond)
	}
	for began := processorTime(pid); ctx.Err() == nil && processorTime(pid)-began < s.Seconds; {
		time.Sleep(2 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return // it has ended, and its number may be another's
	}
	if !s.Child {
		syscall.Kill(pid, signals[s.Name])
		return
	}
	for ctx.Err() == nil {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return
		}
		list := strings.Fields(string(children))
		if tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)); err == nil {
			for _, task := range tasks { // whichever thread has started it
				children, _ := os.ReadFile(task)
				list = append(list, strings.Fields(string(children))...)
			}
		}
		if len(list) > 0 {
			if child, err := strconv.Atoi(list[0]); err == nil {
				syscall.Kill(child, signals[s.Name])
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// processorTime returns what a process has used, in seconds (proc(5): user and system
// time, in hundredths, are the 14th and 15th field; the second is in parentheses).
func processorTime(pid int) float64 {
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

// remaining describes processes of a group, or in a directory, that do not end
// within five seconds: a computing process checks only now and then whether to
// stop.
func remaining(group int, dir string) string {
	left := ""
	for range 500 {
		left = ""
		if syscall.Kill(-group, 0) == nil {
			left = "a process of its group"
		}
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && to == dir {
				left = "a process, " + filepath.Dir(l)
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
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

// text is the output of a process, up to a megabyte of it.
type text struct {
	lock sync.Mutex
	b    bytes.Buffer
	n    int // newlines
}

func (t *text) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.n += bytes.Count(p, []byte("\n"))
	t.b.Write(p[:min(len(p), max(0, 1<<20-t.b.Len()))])
	return len(p), nil
}

func (t *text) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.b.String()
}

// lines counts the lines, including an unfinished one.
func (t *text) lines() int {
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

func TestMain(m *testing.M) {
	// Some cases wait for seconds, for the other end of a pipe or for a signal.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = p.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	}
	// Children inherit that nohup ignores SIGHUP; what is caught is as usual in them.
	if ossignal.Ignored(syscall.SIGHUP) {
		ossignal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	status := m.Run()
	// The kernel counts this process's memory for its children, so it must be
	// small compared with the bounds. (getrusage would include the memory of
	// the process that started this one.)
	if mib := machine.MaxRSS() >> 20; mib > 150 {
		fmt.Printf("the runner itself has used %d MiB\n", mib)
		status = max(status, 1)
	}
	os.Exit(status)
}
