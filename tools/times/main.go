// Times runs go test and prints where its time goes: by package the processor seconds of
// compiling, vetting and linking and those of the tests, with their wall time, and the slowest
// tests. Arguments are as for go test:
//
//	make test-times ARGS="-short ./..."
//
// The exit status is go test's.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	rows  = 30               // of each table
	spent = "TEST_TIMES_RUN" // names the file in which wrapped test programs note their processor time
)

func main() {
	if file := os.Getenv(spent); file != "" && len(os.Args) > 1 {
		os.Exit(wrapped(file, os.Args[1:]))
	}
	status, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// wrapped runs a test program, which go test -exec passes, and notes what it and its children took.
func wrapped(file string, program []string) int {
	c := exec.Command(program[0], program[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, _ := os.Getwd() // go test runs each program in its package's directory
	took := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	if f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintf(f, "%s\t%d\n", dir, took) // one write: lines of several programs do not mix
		f.Close()
	}
	return max(c.ProcessState.ExitCode(), 0)
}

// times are seconds: of processors to compile, to vet, to link, and of the tests with their children;
// and the tests' by the clock.
type times [5]float64

const (
	compile = iota
	vet
	link
	tests
	wall
)

func (t *times) add(o times) {
	for i := range t {
		t[i] += o[i]
	}
}

// total is of processors.
func (t *times) total() float64 { return t[compile] + t[vet] + t[link] + t[tests] }

type test struct {
	name    string
	seconds float64
}

func run(args []string, w io.Writer) (status int, err error) {
	scratch, err := os.MkdirTemp("", "test-times")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	graph, ran := filepath.Join(scratch, "graph"), filepath.Join(scratch, "ran")
	begin := time.Now()
	c := exec.Command("go", slices.Concat([]string{"test", "-json", "-debug-actiongraph=" + graph, "-exec", self}, args)...)
	c.Env, c.Stderr = append(os.Environ(), spent+"="+ran), os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	packages := map[string]*times{}
	of := func(name string) *times {
		if packages[name] == nil {
			packages[name] = &times{}
		}
		return packages[name]
	}
	slowest := events(out, os.Stderr, of)
	if err := c.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, err
	}
	whole := time.Since(begin).Seconds()
	actions, err := os.ReadFile(graph)
	if err != nil {
		return 0, err
	}
	if err := built(actions, of); err != nil {
		return 0, err
	}
	if lines, err := os.ReadFile(ran); err == nil {
		if err := processors(string(lines), of); err != nil {
			return 0, err
		}
	}
	print(w, packages, slowest, whole)
	return c.ProcessState.ExitCode(), nil
}

// events reads the lines of go test -json, sets the wall times of packages, shows what failed,
// and returns the tests, the slowest first.
func events(from io.Reader, failures io.Writer, of func(string) *times) (slowest []test) {
	said := map[string]*strings.Builder{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(failures, lines.Text())
			continue
		}
		name := strings.TrimSuffix(e.Package+" "+e.Test, " ")
		switch e.Action {
		case "output":
			if said[name] == nil {
				said[name] = &strings.Builder{}
			}
			said[name].WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Action == "fail" && said[name] != nil {
				fmt.Fprint(failures, said[name].String())
			}
			delete(said, name)
			if e.Test == "" {
				of(e.Package)[wall] = e.Elapsed
			} else if !strings.Contains(e.Test, "/") {
				slowest = append(slowest, test{name, e.Elapsed})
			}
		}
	}
	slices.SortStableFunc(slowest, func(a, b test) int { return cmp.Compare(b.seconds, a.seconds) })
	return slowest
}

// built adds the processor time of the go command's actions.
func built(graph []byte, of func(string) *times) error {
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys int64 // nanoseconds
	}
	if err := json.Unmarshal(graph, &actions); err != nil {
		return err
	}
	modes := map[string]int{"build": compile, "vet": vet, "link": link}
	for _, a := range actions {
		if mode, ok := modes[a.Mode]; ok && a.CmdUser+a.CmdSys > 0 {
			name, _, _ := strings.Cut(a.Package, " ") // "p [p.test]": p compiled with its tests
			of(strings.TrimSuffix(strings.TrimSuffix(name, ".test"), "_test"))[mode] += float64(a.CmdUser+a.CmdSys) / 1e9
		}
	}
	return nil
}

// processors adds what test programs noted, by the directories of their packages.
func processors(lines string, of func(string) *times) error {
	list := exec.Command("go", "list", "-f", "{{.Dir}}\t{{.ImportPath}}", "./...")
	text, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	packages := map[string]string{}
	for line := range bytes.Lines(text) {
		dir, name, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
		packages[dir] = name
	}
	for line := range strings.Lines(lines) {
		dir, took, _ := strings.Cut(strings.TrimSpace(line), "\t")
		var d time.Duration
		if _, err := fmt.Sscan(took, (*int64)(&d)); err != nil {
			return err
		}
		of(cmp.Or(packages[dir], dir))[tests] += d.Seconds()
	}
	return nil
}

// print prints both tables.
func print(w io.Writer, packages map[string]*times, slowest []test, whole float64) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "compile\tvet\tlink\ttests\twall\t  package (processor seconds; wall seconds of its tests)")
	line := func(name string, s times) {
		for _, seconds := range s {
			fmt.Fprintf(t, "%.1f\t", seconds)
		}
		fmt.Fprintln(t, "  "+name)
	}
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b].total(), packages[a].total()), cmp.Compare(a, b))
	})
	var sum, rest times
	for i, name := range names {
		p := *packages[name]
		sum.add(p)
		if i < rows {
			line(name, p)
		} else {
			rest.add(p)
		}
	}
	if n := len(names) - rows; n > 0 {
		line(fmt.Sprintf("%d others, with the standard library", n), rest)
	}
	line(fmt.Sprintf("all, in %.0f s of wall time", whole), sum)
	t.Flush()
	fmt.Fprintln(w)
	for _, s := range slowest[:min(rows, len(slowest))] {
		fmt.Fprintf(w, "%7.1f  %s\n", s.seconds, s.name)
	}
}
