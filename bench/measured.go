package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"gpipebench/internal/machine"
)

// measureCommand is the first argument of a process of this program that starts
// another program and prints, in the last line of its standard error, how much memory
// that had resident, in bytes.
const measureCommand = "-measure"

// measured runs a program to its end. It returns what the program printed, and the
// most memory that it had resident, in bytes.
//
// On Linux a process begins with the peak of the one that started it, so that a large
// process would get its own for that of its children. Therefore a small process
// between the two starts the program.
func measured(name string, args ...string) (out []byte, rss int64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	var said bytes.Buffer // progress; of interest only if it fails
	cmd := exec.Command(self, append([]string{measureCommand, name}, args...)...)
	cmd.Stderr = &said
	out, err = cmd.Output()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	last := lines[len(lines)-1]
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %s", name, err, last)
	}
	if rss, err = strconv.ParseInt(last, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("%s: its memory is not known: %q", name, last)
	}
	return out, rss, nil
}

// measure is what the process between does, and returns its exit status.
func measure(name string, args []string) int {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil { // it did not start, and has said nothing
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	fmt.Fprintf(os.Stderr, "\n%d\n", machine.MaxRSSOf(cmd.ProcessState))
	return 0
}
