// Package exchange runs exchanges of tensors that are no training, over ranks that each may be
// a process of its own. Experiments register their jobs, and start processes with a hidden
// command that runs one.
package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/printable"
)

// Job is what ranks do together. It is the same in all of them, and JSON has all of it.
type Job interface {
	// Validate refuses what a number of ranks cannot do.
	Validate(ranks int) error
	// Run does a rank's part, and returns what it has done, as JSON takes it.
	Run(ctx context.Context, p *Party) (outcome any, err error)
}

// Command is the hidden command that runs a job in the processes that have been started for
// it, with the flags that Arguments returns.
const Command = "exchange"

// jobs make empty ones, by name.
var jobs = map[string]func() Job{}

// Register adds a kind of job, when the package of its experiment is initialised.
func Register(name string, New func() Job) { jobs[name] = New }

// Arguments are the command line of a job of a registered name.
func Arguments(name string, j Job) []string {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // it is plain data
	}
	return []string{Command, "--of", name, "--job", string(text)}
}

// Read reads a job that Arguments has written.
func Read(name, text string) (Job, error) {
	New, ok := jobs[name]
	if !ok {
		return nil, failure.Usagef("unknown exchange %s: want %s", printable.Quoted(name), strings.Join(slices.Sorted(maps.Keys(jobs)), " or "))
	}
	j := New()
	from := json.NewDecoder(bytes.NewReader([]byte(text)))
	from.DisallowUnknownFields()
	if err := from.Decode(j); err != nil {
		return nil, failure.Usage(fmt.Errorf("exchange %s: %s: %w", name, printable.Quoted(text), err))
	}
	return j, nil
}

// Run runs a job with the other ranks, which call it with the same, and returns what all of
// them have done.
func Run(ctx context.Context, over transport.Transport, ranks, rank int, j Job) (all []json.RawMessage, err error) {
	if err := j.Validate(ranks); err != nil {
		return nil, failure.Usage(err)
	}
	p, err := join(ctx, over, ranks, rank)
	if err != nil {
		return nil, err
	}
	defer func() { p.leave(err) }()
	outcome, err := j.Run(ctx, p)
	if err != nil {
		return nil, err
	}
	return p.collect(outcome)
}
