package experiments

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"gpipebench"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// inProcesses measures what the log lacks, each round in a process of its own.
func (r Reproducing) inProcesses(ctx context.Context, e timed.Experiment, spec []lab.SpecFile, log *records.Log, p progress.Progress) error {
	rounds, err := e.Repeated(log.Key.Profile)
	if err != nil || rounds == nil {
		return err
	}
	return timed.EachRound(rounds, log, p, "each round in a process of its own", func(round int) error {
		request := &timed.RoundRequest{Key: log.Key, Engine: gpipebench.Engine(), Round: round, Samples: log.Snapshot()}
		for _, s := range spec {
			request.Spec = &timed.SpecText{Name: s.Name, Text: s.Text}
		}
		err := startRound(ctx, r.Executable, request, rounds.Samples()[round], log)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s, round %d: %w", e.ID(), round, err)
		}
		return err
	})
}

// startRound runs a process that measures a round, and adds each of its samples to the
// log as soon as it comes. The process ends with the context, and with this process.
func startRound(ctx context.Context, executable string, request *timed.RoundRequest, names []string, log *records.Log) error {
	own, stop := context.WithCancel(ctx)
	defer stop()
	c := exec.CommandContext(own, executable, timed.RoundCommand)
	c.WaitDelay = time.Second // for what may hold its output open
	var said bytes.Buffer
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("its process does not start: %w", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- json.NewEncoder(in).Encode(request) }()
	read := timed.AdoptAll(out, names, log)
	if read != nil {
		stop()
	}
	ended := c.Wait() // which closes in as well
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case read != nil:
		return fmt.Errorf("its process: %w", read)
	case ended != nil:
		return fmt.Errorf("its process %s", failure.Ending(c.ProcessState, said.String(), executable))
	}
	return <-sent
}

// RunRound is what a process that is started with RoundCommand does: it reads which
// round to measure, and writes records. It ends early when in ends, since then no
// process takes them.
func RunRound(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var request timed.RoundRequest
	line, err := files.ReadLine(lines, timed.MaxRequest)
	if err == nil && json.Unmarshal(line, &request) != nil {
		err = errors.New("no line that asks for one")
	}
	if err != nil {
		return failure.Usagef("no round is asked for on standard input (%v): it is reproduce that starts this", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		stop()
	}()
	var spec []lab.SpecFile
	if s := request.Spec; s != nil {
		spec = []lab.SpecFile{{Name: s.Name, Experiment: request.Key.Experiment, Text: s.Text}}
	}
	e, err := Load(request.Key.Experiment, spec...)
	if err != nil {
		return err
	}
	t, ok := e.(timed.Experiment)
	if !ok {
		return failure.Usagef("%s is not measured in rounds", e.ID())
	}
	log := records.New(e.Key(request.Key.Profile))
	if log.Key != request.Key || gpipebench.Engine() != request.Engine {
		return fmt.Errorf("%s: this process has another program, spec or machine (%+v) than the one that asks (%+v)", e.ID(), log.Key, request.Key)
	}
	rounds, err := t.Repeated(request.Key.Profile)
	if err != nil {
		return err
	}
	if rounds == nil {
		return failure.Usagef("%s starts processes of its own", e.ID())
	}
	if n := len(rounds.Samples()); request.Round < 0 || request.Round >= n {
		return failure.Usagef("round %d: want 0 to %d", request.Round, n-1)
	}
	log.Restore(request.Samples)
	log.PrintTo(out, request.Round)
	return rounds.Round(ctx, request.Round, log)
}
