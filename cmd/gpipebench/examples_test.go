package main

import (
	"io"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Every subcommand has an example, and its flags are there and take what they
// are given.
func TestExamplesParse(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		if internal := c.Hidden && c.GroupID == "work"; c.Example == "" && !internal {
			t.Errorf("%s has no example", c.Name())
		}
		for line := range strings.Lines(c.Example) {
			args := strings.Fields(line)
			if len(args) < 2 || args[0] != "gpipebench" {
				t.Errorf("%s: example %q: want a line of gpipebench", c.Name(), line)
				continue
			}
			// Flags are parsed once for a command, so each line has its own.
			cmd, rest, err := newRoot(io.Discard, io.Discard).Find(joinTied(args[1:]))
			if err != nil {
				t.Errorf("%s: %q: %v", c.Name(), line, err)
				continue
			}
			err = cmd.ParseFlags(rest)
			if err == nil && cmd.PreRunE != nil {
				err = cmd.PreRunE(cmd, nil)
			}
			testkit.Equal(t, err, nil, "%s: %q", c.Name(), line)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"__complete rep", "reproduce"},
		{"__complete train --sched", "--schedule"},
		{"completion bash", "__start_gpipebench"},
		{"completion zsh", "#compdef gpipebench"},
		{"completion fish", "complete -c gpipebench"},
	} {
		out, _ := succeeds(t, strings.Split(test.line, " ")...)
		testkit.Has(t, out, test.want)
	}
}
