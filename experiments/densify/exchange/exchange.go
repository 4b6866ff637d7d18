// Package exchange accumulates the gradient of a tied table over ranks, by a gather and
// by a reduction, with the same bits. Nothing is trained: the gradients are random
// numbers of the sizes that package accumulate states.
//
// Each rank has the rows of the softmax, which are all of the table's, then those of the
// source's tokens, then those of the target's. Within a rank the rows of one token are
// added in ascending order of the tokens, on each side by itself; then the target's sum
// is added to the source's, and the softmax's row to that. Ranks are added up by the tree
// of package reduction. A gather has no other order of additions than a reduction has, so
// the paper's change of one into the other changes no bit.
//
// A gather's rows arrive where they are added up, so a rank needs no memory for them but
// that of [accumulate.Table.GatheredBytes], and that of their indices.
package exchange

import (
	"context"
	"errors"
	"fmt"

	"gpipebench/experiments/densify/accumulate"
	"gpipebench/experiments/party"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/machine"
)

// Command is the hidden command that runs an accumulation in the processes that have
// been started for it.
const Command = "accumulate"

// Job is one accumulation. It is the same in all ranks.
type Job struct {
	Table accumulate.Table
	Way   accumulate.Way // Gather or Reduce
	Seed  uint64
}

// Outcome is what one rank has done.
type Outcome struct {
	Rank int `json:"rank"`
	// Bytes of the accumulated gradient as the rank has it after the exchange: of values,
	// and of indices.
	Held    int64 `json:"held_bytes"`
	Indices int64 `json:"index_bytes"`
	// Received is how many bytes of tensors have come from other ranks.
	Received int64 `json:"received_bytes"`
	// Seconds of the three parts, one after another. A reduction first turns rows into a
	// tensor, and adds up while it exchanges. A gather adds up afterwards.
	Densify  float64 `json:"densify_seconds"`
	Exchange float64 `json:"exchange_seconds"`
	Sum      float64 `json:"sum_seconds"`
	// Resident is the most memory that the process has had, and Program what of it there was
	// before it had any gradients: the program and its connections; 0 if that is unknown. Of
	// ranks that share a process both are those of all of them.
	Resident int64  `json:"resident_bytes"`
	Program  int64  `json:"program_bytes"`
	SHA256   string `json:"sha256"` // of the sum, in little-endian order
}

// Seconds are those of all parts.
func (o *Outcome) Seconds() float64 { return o.Densify + o.Exchange + o.Sum }

// validate refuses what cannot be accumulated.
func (j Job) validate(ranks int) error {
	t := j.Table
	switch {
	case j.Way != accumulate.Gather && j.Way != accumulate.Reduce:
		return fmt.Errorf("a table's gradient is accumulated by %v: want %v or %v", j.Way, accumulate.Reduce, accumulate.Gather)
	case t.Vocab < 1 || t.Dim < 1 || t.Source < 0 || t.Target < 0 || ranks < 1:
		return fmt.Errorf("a table of %d rows and %d columns, %d and %d tokens, %d ranks: want 1 or more of each, and tokens from 0", t.Vocab, t.Dim, t.Source, t.Target, ranks)
	}
	return nil
}

// Run accumulates with the other ranks, which call it with the same job, and returns what
// all of them have done. A rank is a replica of one stage.
func Run(ctx context.Context, over transport.Transport, ranks, rank int, j Job) (all []Outcome, err error) {
	if err := j.validate(ranks); err != nil {
		return nil, failure.Usage(err)
	}
	p, err := party.Join(ctx, over, ranks, rank)
	if err != nil {
		return nil, err
	}
	defer func() { p.Leave(err) }()
	o := Outcome{Rank: rank, Program: machine.MaxRSS()}
	var sum []float32
	if j.Way == accumulate.Gather {
		sum, err = gather(ctx, p, j, &o)
	} else {
		sum, err = reduce(ctx, p, j, &o)
	}
	if err != nil {
		return nil, err
	}
	o.Received = p.Received()
	o.Resident = machine.MaxRSS()
	o.SHA256 = party.Digest(sum)
	return collect(p, o)
}

// collect returns what every rank has done.
func collect(p *party.Party, own Outcome) ([]Outcome, error) {
	all, err := party.Collect(p, own)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Rank != i {
			return nil, errors.New("ranks that report in another order")
		}
	}
	return all, nil
}
