package main

import (
	"bytes"
	"context"
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
		args := strings.Split(test.line, " ")
		var out, errs bytes.Buffer
		if status := run(context.Background(), args, &out, &errs); status != 0 || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: status %d, no %q in %.300q %q", test.line, status, test.want, out.String(), errs.String())
		}
	}
}
