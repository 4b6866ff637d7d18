package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// measureCommand is the first argument of a process of this program that starts
// another program, and says on its standard error's last line how much memory that
// had resident, in bytes.
const measureCommand = "-measure"

// measured runs a program to its end: what it printed, and the most memory that it
// had resident, in bytes.
//
// On Linux a process begins with the peak of the one that started it, so that what
// a large process is told of its children is its own. The program is therefore
// started by a process between the two, which has no memory to speak of.
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

// measure is what the process between does. It returns its exit status.
func measure(name string, args []string) int {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil { // it did not start, and has said nothing
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	fmt.Fprintf(os.Stderr, "\n%d\n", maxRSS(cmd.ProcessState))
	return 0
}
