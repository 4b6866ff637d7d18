package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/machine"
	"gpipebench/nn"
)

// Processes connect a training or a benchmark with the other processes that run it. All
// have the same settings; the one of rank 0 writes files.
type Processes struct {
	// Connect connects this process. data is a digest of the data and of the weights to
	// begin with, which must be the same in all processes; "": there are none.
	Connect func(ctx context.Context, data string) (transport.Transport, error)
	Own     Process // this process; its measures are taken at the end
}

// Process is one of the processes that ran something together.
type Process struct {
	Rank        int    `json:"rank"`
	Host        string `json:"host"`
	Places      string `json:"places"`        // what it ran, such as "replica 1"
	MaxRSSBytes int64  `json:"max_rss_bytes"` // 0 if unknown
	// ClockWithin is how far its clock may be from that of rank 0, in seconds, after they
	// were compared for the timeline.
	ClockWithin float64 `json:"clock_within_seconds"`
}

// follows reports whether another process writes the files.
func (p *Processes) follows() bool { return p != nil && p.Own.Rank > 0 }

// connect connects the pipeline with other processes, if there are any.
func (p *Processes) connect(ctx context.Context, s Setup, to *gpipe.Pipeline, data string) (err error) {
	if p == nil {
		return nil
	}
	if s.Cost == Time && s.Balance == nil && s.Partitions > 1 {
		return failure.Usagef("layers cannot be balanced by their times in several processes, since each would measure other times: want flops or memory, or the layers of each partition")
	}
	if s.Device != gpipe.Host {
		return failure.Usagef("%v devices in several processes: want host devices, or one process, since their tasks are timed one at a time", s.Device)
	}
	to.Transport, err = p.Connect(ctx, data)
	return err
}

// gather returns all processes of a trainer; nil if there is one.
func (p *Processes) gather(ctx context.Context, t *gpipe.Trainer, over transport.Transport) ([]Process, error) {
	if p == nil {
		return nil, nil
	}
	own := p.Own
	own.MaxRSSBytes = machine.MaxRSS()
	if c, ok := over.(transport.Clocked); ok {
		_, within := c.Clock()
		own.ClockWithin = within.Seconds()
	}
	message, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	messages, err := t.Exchange(ctx, message)
	if err != nil {
		return nil, fmt.Errorf("what the processes have used: %w", err)
	}
	all := make([]Process, len(messages))
	for i, m := range messages {
		if err := json.Unmarshal(m, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// digest returns a digest of what a training reads: its files of data and of weights, how
// many mini-batches its data have, the first, the last of an epoch and the first of those
// held out.
func (t *Training) digest(s datasets.Source) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, datasets.Digest(s))
	for _, split := range []datasets.Split{datasets.Train, datasets.HeldOut} {
		n := s.Batches(split, t.Batch)
		fmt.Fprintln(h, n)
		indices := []int{0}
		switch {
		case split == datasets.HeldOut && n == 0:
			indices = nil
		case n > 1:
			indices = append(indices, n-1)
		}
		for _, i := range indices {
			b, err := s.Batch(split, i, t.Batch)
			if err != nil {
				return "", err
			}
			if err := digestBatch(h, b); err != nil {
				return "", err
			}
		}
	}
	for _, name := range []string{t.Load, t.LoadPart} {
		if name == "" {
			continue
		}
		f, _, err := files.OpenRegular(name, files.Kind{What: "a file of weights", Bytes: math.MaxInt64})
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func digestBatch(h hash.Hash, b nn.Batch) error {
	for _, tensors := range [][]nn.Tensor{b.Inputs, b.Targets} {
		for _, t := range tensors {
			fmt.Fprintln(h, t.Shape)
			if err := binary.Write(h, binary.LittleEndian, t.F32); err != nil {
				return err
			}
			if err := binary.Write(h, binary.LittleEndian, t.I32); err != nil {
				return err
			}
		}
	}
	return nil
}
