package experiments

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"gpipebench/internal/files"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpipebench"
)

// repeated is a measurement of time that is repeated in rounds. A round has the
// same samples as every other, so that what is compared is compared within it,
// and, where a program is known that can be started for it, a process of its
// own: what one process happens to have for all its life, such as where its
// memory lies, is then in the interval over rounds like any other chance.
type repeated interface {
	// samples names those of each round.
	samples() [][]string
	// round adds the samples of one round that the log lacks. Of other rounds' it
	// may read what that round is to do alike.
	round(ctx context.Context, round int, log *Log) error
}

// timed is an experiment with a repeated measurement. Its Measure takes the
// rounds in this process, as far as the log lacks them.
type timed interface {
	Experiment
	repeated(profile string) (repeated, error)
}

// inThisProcess measures what the log lacks of all rounds, one after another.
func inThisProcess(ctx context.Context, r repeated, log *Log, p Progress) error {
	return eachRound(r, log, p, "in this process", func(round int) error { return r.round(ctx, round, log) })
}

// eachRound has measure add the samples of every round that lacks some.
func eachRound(r repeated, log *Log, p Progress, where string, measure func(round int) error) error {
	rounds := r.samples()
	total := 0
	for _, names := range rounds {
		total += len(log.lacks(names))
	}
	if total == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %d rounds of %d samples, %s", log.Key.Experiment, len(rounds), len(rounds[0]), where), total)
	defer p.End()
	log.observe(func(name string, data []byte) { p.Advance(sampleLine(name, data)) })
	defer log.observe(nil)
	for round, names := range rounds {
		if len(log.lacks(names)) == 0 {
			continue
		}
		if err := measure(round); err != nil {
			return err
		}
		if lacks := log.lacks(names); len(lacks) > 0 {
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
	return name + "  " + FormatSeconds(s.Seconds)
}

// RoundCommand is the argument that Reproducing.Executable is started with for
// a round. That program is to hand its standard input and output to RunRound.
const RoundCommand = "round"

// roundRequest is what a round's process reads: one line of JSON. Its input ends
// when the process that asks does.
type roundRequest struct {
	Key     Key                        `json:"key"`
	Engine  string                     `json:"engine"`
	Round   int                        `json:"round"`
	Spec    *specText                  `json:"spec,omitempty"` // instead of the one in the program
	Samples map[string]json.RawMessage `json:"samples"`        // that are there
}

// maxRequest is how long a request may be: all samples of an experiment are in it.
const maxRequest = 16 << 20

type specText struct {
	Name string `json:"name"`
	Text []byte `json:"text"`
}

// inProcesses measures what the log lacks of all rounds, each in a process of
// its own.
func (r Reproducing) inProcesses(ctx context.Context, e timed, spec []SpecFile, log *Log, p Progress) error {
	rounds, err := e.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	return eachRound(rounds, log, p, "each round in a process of its own", func(round int) error {
		request := &roundRequest{Key: log.Key, Engine: gpipebench.Engine(), Round: round, Samples: log.snapshot()}
		for _, s := range spec {
			request.Spec = &specText{s.Name, s.text}
		}
		err := startRound(ctx, r.Executable, request, rounds.samples()[round], log)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s, round %d: %w", e.ID(), round, err)
		}
		return err
	})
}

// startRound runs a process that measures a round, and adds each of its samples
// to the log as soon as it is there. The process ends with the context, and with
// this process.
func startRound(ctx context.Context, executable string, request *roundRequest, names []string, log *Log) error {
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
	read := adoptAll(out, names, log)
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
		return fmt.Errorf("its process %s", ending(c.ProcessState, said.String(), executable))
	}
	return <-sent
}

// adoptAll adds the records that a round's process prints to the log: those of
// its session and samples of the round. What is behind the last newline was
// never finished.
func adoptAll(out io.Reader, names []string, log *Log) error {
	lines := bufio.NewReader(out)
	for {
		line, err := files.ReadLine(lines, maxRecord)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := log.adopt(bytes.TrimSuffix(line, []byte("\n")), names); err != nil {
			return err
		}
	}
}

// ending says how a process ended early: by which signal, or with which status and
// what it said last, or why it panicked. Go's runtime has some signals end a
// process with a dump of its goroutines, that begins with the signal's name, and
// status 2.
func ending(state *os.ProcessState, said, executable string) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was ended by a signal (%d, %v)", int(status.Signal()), status.Signal())
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if i := slices.IndexFunc(lines, dumped.MatchString); i >= 0 {
		return "was ended by a signal (" + strings.Replace(lines[i], ": ", ", ", 1) + ")"
	}
	line := lines[len(lines)-1]
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") }); i >= 0 {
		line = lines[i]
	}
	if line == "" {
		line = "it said nothing"
	}
	return fmt.Sprintf("ended early (%v): %s", state, strings.TrimPrefix(line, filepath.Base(executable)+": "))
}

var dumped = regexp.MustCompile(`^SIG[A-Z]+: [a-z ]+$`)

// RunRound is what a process that is started with RoundCommand does: it reads
// which round to measure, and writes records. It ends early when in does, since
// then nobody takes them.
func RunRound(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var request roundRequest
	line, err := files.ReadLine(lines, maxRequest)
	if err == nil && json.Unmarshal(line, &request) != nil {
		err = errors.New("no line that asks for one")
	}
	if err != nil {
		return usagef("no round is asked for on standard input (%v): it is reproduce that starts this", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		stop()
	}()
	var spec []SpecFile
	if s := request.Spec; s != nil {
		spec = []SpecFile{{s.Name, request.Key.Experiment, s.Text}}
	}
	e, err := Load(request.Key.Experiment, spec...)
	if err != nil {
		return err
	}
	t, ok := e.(timed)
	if !ok {
		return usagef("%s is not measured in rounds", e.ID())
	}
	log := NewLog(e.Key(request.Key.Profile))
	if log.Key != request.Key || gpipebench.Engine() != request.Engine {
		return fmt.Errorf("%s: this process has another program, spec or machine (%+v) than the one that asks (%+v)", e.ID(), log.Key, request.Key)
	}
	rounds, err := t.repeated(request.Key.Profile)
	if err != nil {
		return err
	}
	if n := len(rounds.samples()); request.Round < 0 || request.Round >= n {
		return usagef("round %d: want 0 to %d", request.Round, n-1)
	}
	log.restore(request.Samples)
	log.printTo(out, request.Round)
	return rounds.round(ctx, request.Round, log)
}

// processNote says which processes the rounds ran in.
func processNote(r repeated, log *Log) string {
	rounds := r.samples()
	of := map[*Provenance]map[int]bool{} // rounds, by the session that measured them
	more := 0                            // rounds with several sessions
	for round, names := range rounds {
		sessions := map[*Provenance]bool{}
		for _, name := range names {
			if s := log.origin(name); s != nil {
				sessions[s] = true
			}
		}
		if len(sessions) > 1 {
			more++
		}
		for s := range sessions {
			if of[s] == nil {
				of[s] = map[int]bool{}
			}
			of[s][round] = true
		}
	}
	fresh := true
	for session, own := range of {
		fresh = fresh && len(own) == 1 && session.Process != nil && session.Process.Round != nil
	}
	switch {
	case !fresh:
		return fmt.Sprintf("Processes: %d for %d rounds, so that rounds share one: what differs from process to process is not in the intervals.", len(of), len(rounds))
	case more > 0:
		return fmt.Sprintf("Processes: a fresh one for each of the %d rounds; %d of them, which were interrupted, went on in another.", len(rounds), more)
	}
	return fmt.Sprintf("Processes: a fresh one for each of the %d rounds.", len(rounds))
}
