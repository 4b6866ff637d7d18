package timed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"gpipebench"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Repeated is a measurement of time that is repeated in rounds. Every round has the
// same samples, so that what is compared is compared within a round, and, where a
// program can be started for it, a process of its own: what stays the same
// throughout a process, such as where its memory lies, then varies over rounds and
// is in their interval.
type Repeated interface {
	// Samples names those of each round.
	Samples() [][]string
	// Round adds the samples of one round that the log lacks. It may read those of
	// other rounds for what all rounds must do alike.
	Round(ctx context.Context, round int, log *records.Log) error
}

// Experiment is one with a repeated measurement. Its Measure takes the rounds that
// the log lacks in this process.
type Experiment interface {
	lab.Experiment
	Repeated(profile string) (Repeated, error) // nil: Measure starts processes of its own
}

// withBeside is an experiment that makes something to show beside its times.
type withBeside interface {
	MakeBeside(ctx context.Context, log *records.Log, p progress.Progress) error
}

// InThisProcess measures what the log lacks of all rounds, one after another.
func InThisProcess(ctx context.Context, r Repeated, log *records.Log, p progress.Progress) error {
	return EachRound(r, log, p, "in this process", func(round int) error { return r.Round(ctx, round, log) })
}

// EachRound calls measure for every round whose samples the log lacks.
func EachRound(r Repeated, log *records.Log, p progress.Progress, where string, measure func(round int) error) error {
	rounds := r.Samples()
	all := slices.Concat(rounds...)
	if err := log.TakeTimed(all); err != nil {
		return err
	}
	total := len(log.Lacks(all))
	if total == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %d rounds of %d samples, %s", log.Key.Experiment, len(rounds), len(rounds[0]), where), total)
	defer p.End()
	log.Observe(func(name string, data []byte) { p.Advance(sampleLine(name, data)) })
	defer log.Observe(nil)
	for round, names := range rounds {
		if len(log.Lacks(names)) == 0 {
			continue
		}
		if err := measure(round); err != nil {
			return err
		}
		if lacks := log.Lacks(names); len(lacks) > 0 {
			return fmt.Errorf("%s, round %d: it ended without sample %s", log.Key.Experiment, round, lacks[0])
		}
	}
	return nil
}

// sampleLine is what progress says of a sample: its name and, if it has one, its
// time.
func sampleLine(name string, data []byte) string {
	var s struct{ Seconds float64 }
	if json.Unmarshal(data, &s) != nil || s.Seconds <= 0 {
		return name
	}
	return name + "  " + units.FormatSeconds(s.Seconds)
}

// RoundCommand is the argument that a program is started with for a round. It must read the
// request, load its experiment, and run it.
const RoundCommand = "round"

// RoundRequest is what a round's process reads: one line of JSON. Its input ends
// when the process that asks for the round ends.
type RoundRequest struct {
	in io.Reader // after the line

	Key     records.Key                `json:"key"`
	Engine  string                     `json:"engine"`
	Round   int                        `json:"round"`
	Spec    []lab.SpecFile             `json:"spec,omitempty"` // instead of the one in the program
	Samples map[string]json.RawMessage `json:"samples"`        // that the log has
}

// maxRequest is how long a request may be: all samples of an experiment are in it.
const maxRequest = 16 << 20

// InProcesses measures what the log lacks, each round in a process of its own: an executable
// that is started with RoundCommand. The spec is instead of the one in the program. An experiment
// that starts processes of its own does so.
func InProcesses(ctx context.Context, executable string, e Experiment, spec []lab.SpecFile, log *records.Log, p progress.Progress) error {
	rounds, err := e.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if rounds == nil {
		return e.Measure(ctx, log, p)
	}
	if b, ok := e.(withBeside); ok { // first, so that the last session of the log is one that timed
		if err := b.MakeBeside(ctx, log, p); err != nil {
			return err
		}
	}
	return EachRound(rounds, log, p, "each round in a process of its own", func(round int) error {
		request := &RoundRequest{Key: log.Key, Engine: gpipebench.Engine(), Round: round, Spec: spec, Samples: log.Snapshot()}
		err := startRound(ctx, executable, request, rounds.Samples()[round], log)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s, round %d: %w", e.ID(), round, err)
		}
		return err
	})
}

// startRound runs a process that measures a round, and adds each of its samples to the
// log as soon as it comes. The process ends with the context, and with this process.
func startRound(ctx context.Context, executable string, request *RoundRequest, names []string, log *records.Log) error {
	own, stop := context.WithCancel(ctx)
	defer stop()
	c := exec.CommandContext(own, executable, RoundCommand)
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
	read := AdoptAll(out, names, log)
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

// AdoptAll adds the records that a round's process prints to the log: those of
// its session and samples of the round. What follows the last newline is incomplete
// and ignored.
func AdoptAll(out io.Reader, names []string, log *records.Log) error {
	lines := bufio.NewReader(out)
	for {
		line, err := files.ReadLine(lines, records.MaxRecord)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := log.Adopt(bytes.TrimSuffix(line, []byte("\n")), names); err != nil {
			return err
		}
	}
}

// ReadRequest reads which round a process that is started with RoundCommand is to measure.
func ReadRequest(in io.Reader) (*RoundRequest, error) {
	lines := bufio.NewReader(in)
	request := &RoundRequest{in: lines}
	line, err := files.ReadLine(lines, maxRequest)
	if err == nil && json.Unmarshal(line, request) != nil {
		err = errors.New("no line that asks for one")
	}
	if err != nil {
		return nil, failure.Usagef("no round is asked for on standard input (%v): it is reproduce that starts this", err)
	}
	return request, nil
}

// Run measures the round of an experiment, the one of Key by Spec, and writes records. It ends early
// when the input ends, since then no process takes them, and not with the context: a terminal
// interrupts the process that asks for the round as well, which is the one to say so and to end this one.
func (request *RoundRequest) Run(ctx context.Context, e lab.Experiment, out io.Writer) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, request.in)
		stop()
	}()
	t, ok := e.(Experiment)
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

// ProcessNote says which processes the rounds ran in.
func ProcessNote(r Repeated, log *records.Log) string {
	rounds := r.Samples()
	of := map[*records.Provenance][]int{} // rounds, by the session that measured them
	more := 0                             // rounds with several sessions
	for round, names := range rounds {
		sessions := 0
		for _, name := range names {
			if s := log.Origin(name); s != nil && !slices.Contains(of[s], round) {
				of[s] = append(of[s], round)
				sessions++
			}
		}
		if sessions > 1 {
			more++
		}
	}
	fresh := true
	for session, own := range of {
		fresh = fresh && len(own) == 1 && session.Process != nil && session.Process.Round != nil
	}
	switch {
	case !fresh:
		return fmt.Sprintf("Processes: %d for %d rounds, so rounds share a process: differences between processes are not in the intervals.", len(of), len(rounds))
	case more > 0:
		return fmt.Sprintf("Processes: a fresh one for each of the %d rounds. Interrupted rounds that continued in another process: %d.", len(rounds), more)
	}
	return fmt.Sprintf("Processes: a fresh one for each of the %d rounds.", len(rounds))
}
