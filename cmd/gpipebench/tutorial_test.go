package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

var update = flag.Bool("update", false, "write the outputs in docs/tutorial.md anew: only after a change that should change them; then read them")

// measured is the mark of lines with times of this machine, which are not compared.
const measured = "   [measured]"

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```\n")
	stepTimes    = regexp.MustCompile(`(?m)^step \S+ \S+ (by the wall clock|on the virtual clock), closed form \S+ \S+, \S+ examples/s$|^  device \d+: idle .*$`)
	belowClosed  = regexp.MustCompile(`(?m)^  the step is shorter than the closed form, .*\n`)
)

// The tutorial's commands, one after another in one directory, print what stands below
// them: what is measured is marked and may differ.
func TestTutorial(t *testing.T) {
	testkit.CI(t)
	if nn.KernelProfile() == "generic" {
		t.Skip("takes minutes on portable kernels")
	}
	name := testkit.Must(filepath.Abs(filepath.Join("..", "..", "docs", "tutorial.md")))(t)
	raw := testkit.Must(os.ReadFile(name))(t)
	t.Chdir(t.TempDir())
	commands := 0
	text := consoleBlock.ReplaceAllStringFunc(string(raw), func(block string) string {
		want := consoleBlock.FindStringSubmatch(block)[1]
		got := ""
		for _, shown := range commandsOf(want) {
			commands++
			line := strings.ReplaceAll(strings.TrimPrefix(shown, "$ "), "\\\n", "")
			args := strings.Fields(line)
			if len(args) == 0 || args[0] != "gpipebench" {
				t.Errorf("%q: want a command of gpipebench", line)
				continue
			}
			status, stdout, stderr := execute(t, args[1:]...)
			if status != 0 { // the line of the error comes last
				lines := strings.Split(strings.TrimSpace(stderr), "\n")
				stdout += lines[len(lines)-1] + "\n"
			}
			got += shown + "\n" + stepTimes.ReplaceAllString(belowClosed.ReplaceAllString(stdout, ""), "$0"+measured)
		}
		if comparable(got) == comparable(want) {
			return block
		}
		if !*update {
			t.Errorf("the tutorial (-want +got):\n%s", cmp.Diff(want, got))
		}
		return "```console\n" + got + "```\n"
	})
	if commands < 8 {
		t.Errorf("%d commands in the tutorial, want 8 or more", commands)
	}
	if *update && !t.Failed() {
		testkit.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// commandsOf returns the commands that a block begins with or has between outputs, with
// the lines that they go on.
func commandsOf(block string) (commands []string) {
	lines := strings.Split(block, "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "$ ") {
			continue
		}
		command := lines[i]
		for strings.HasSuffix(lines[i], `\`) {
			i++
			command += "\n" + lines[i]
		}
		commands = append(commands, command)
	}
	return commands
}

// comparable returns an output without what this machine's speed decides.
func comparable(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if plain, ok := strings.CutSuffix(line, measured); ok {
			line = stepTimes.ReplaceAllString(plain, "step: $1"+measured)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
