package main

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/files"
	"gpipebench/train"
)

// snapshotFloats is the size of each of a snapshot's three tensors, 1 GiB together.
const snapshotFloats = 1 << 28 / 3

// snapshot compares the writing of a snapshot, weights and two slots, with that of as many
// bytes to one file. Both are on the disk when the time ends.
func (b *bench) snapshot() error {
	dir, err := os.MkdirTemp(b.out, "bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	values := func() []gpipe.NamedWeights {
		data := make([]float32, snapshotFloats)
		for i := range data {
			data[i] = float32(i)
		}
		return []gpipe.NamedWeights{{Path: "w", Shape: []int{snapshotFloats}, Data: data}}
	}
	state := &gpipe.State{Weights: values(), Slots: []gpipe.Slot{{Name: "mean", Values: values()}, {Name: "mean_square", Values: values()}}}
	ways := [2]func() error{
		func() error { return snapshot.Write(filepath.Join(dir, "snapshots"), snapshot.Contents{State: state}) },
		func() error { return writePlain(filepath.Join(dir, "plain"), state) },
	}
	var rates [2][]float64 // MB/s
	for round := range b.rounds + 1 {
		for i := range ways {
			i := (i + round) % 2 // what is written first finds the disk more or less busy
			if err := os.MkdirAll(filepath.Join(dir, "snapshots"), 0o700); err != nil {
				return err
			}
			start := time.Now()
			if err := ways[i](); err != nil {
				return err
			}
			took := time.Since(start).Seconds()
			for _, name := range []string{"snapshots", "plain"} {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			if round > 0 { // the first round warms up
				rates[i] = append(rates[i], 3*4e-6*snapshotFloats/took)
			}
		}
	}
	s := &rows.Sample{What: "1 GiB"}
	s.Add("ours", "MB/s", rates[0]...)
	s.Add("one file", "MB/s", rates[1]...)
	s.Add("ratio", "", ratios(rates[0], rates[1])...)
	return b.add(s)
}

// writePlain writes a state's numbers as one file. They are the same bytes, as a disk may be
// faster with others, such as zeros.
func writePlain(name string, state *gpipe.State) error {
	block := make([]byte, 1<<20)
	return files.Write(name, func(w io.Writer) error {
		for _, v := range [][]gpipe.NamedWeights{state.Weights, state.Slots[0].Values, state.Slots[1].Values} {
			for part := range slices.Chunk(v[0].Data, len(block)/4) {
				for i, x := range part {
					binary.LittleEndian.PutUint32(block[4*i:], math.Float32bits(x))
				}
				if _, err := w.Write(block[:4*len(part)]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// kept is a training of seconds that keeps two snapshots on the way, or none.
var kept = train.Training{
	Model: train.Model{Name: train.LanguageModel, Layers: 4, Dim: 128, FF: 512, Heads: 4, Vocab: 1024, Seq: 64},
	Data:  "synthetic", Batch: 8, Steps: 250, Seed: 1, Optimizer: "adam", LR: 0.001, LRSchedule: "constant",
	Setup: train.Setup{Partitions: 1, MicroBatches: 1, Threads: 2, Checkpoint: schedule.Never},
}

// snapshots compares a training with a snapshot every 100 steps with one without, from
// the first step to the last.
func (b *bench) snapshots() error {
	var sides [2][]float64
	for round := range b.rounds {
		for i := range sides {
			i := (i + round) % 2
			took, err := b.train(i == 1)
			if err != nil {
				return err
			}
			sides[i] = append(sides[i], took)
		}
	}
	s := &rows.Sample{What: "250 steps"}
	s.Add("without", "s", sides[0]...)
	s.Add("with", "s", sides[1]...)
	lost := ratios(sides[1], sides[0])
	for i := range lost {
		lost[i]--
	}
	s.Add("lost", "", lost...)
	return b.add(s)
}

// train returns the seconds of a training's steps.
func (b *bench) train(keeping bool) (seconds float64, err error) {
	t := kept
	if keeping {
		dir, err := os.MkdirTemp(b.out, "bench-*")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		t.Snapshots = train.Snapshots{Dir: dir, Every: 100, Keep: 2}
	}
	l, err := t.Open(context.Background())
	if err != nil {
		return 0, err
	}
	defer l.Close()
	var start time.Time
	err = l.Run(context.Background(), train.Hooks{
		At: func(done int) error {
			if done == 0 {
				start = time.Now()
			}
			return nil
		},
		After: func(s *train.TrainStep) error {
			seconds = time.Since(start).Seconds()
			return nil
		},
	})
	return seconds, err
}
