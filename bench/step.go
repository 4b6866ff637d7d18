package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gpipebench/bench/rows"
)

// lm is the model of DESIGN's step row, as flags of both programs.
var lm = []string{"--layers", "6", "--dim", "256", "--ff", "1024", "--heads", "8", "--seq", "128", "--vocab", "8192", "--batch", "16"}

type timed struct {
	Step struct {
		Median float64   `json:"median"`
		All    []float64 `json:"all"`
	} `json:"step_seconds"`
	RSS     int64     `json:"-"` // as the system says when the process has ended
	BLAS    string    `json:"blas"`
	Version string    `json:"version"`
	Variant string    `json:"variant"`
	Params  int64     `json:"params"`
	Losses  []float64 `json:"losses"`
}

func runJSON(name string, args ...string) (t timed, err error) {
	out, rss, err := measured(name, args...)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(out, &t); err != nil {
		return t, fmt.Errorf("%s printed no JSON: %w", name, err)
	}
	t.RSS = rss
	return t, nil
}

// step times training steps of lm.
func (b *bench) step() error {
	ours := []string{b.command, "bench", "--model", "transformer-lm", "-k", "1", "-m", "1", "--checkpoint", "never", "--steps", "8", "--json"}
	return b.steps(append(ours, lm...), append([]string{"--steps", "8", "--warmup", "2"}, lm...), nil)
}

// steps times whole training steps of a network, each side in a process of its
// own, in turns, with one thread and with two. Ours is a program and its arguments,
// theirs are those of PyTorch. Compare, if it is not nil, then checks that both
// compute the same, and says so.
func (b *bench) steps(ours, theirs []string, compare func(variant string) (note string, err error)) error {
	var missing error
	for _, threads := range []string{"1", "2"} {
		var us, them timed
		var ourTimes, theirTimes []float64
		variant := "best"
		for range b.rounds {
			var err error
			if us, err = runJSON(ours[0], slices.Concat(ours[1:], []string{"--threads", threads})...); err != nil {
				return err
			}
			ourTimes = append(ourTimes, us.Step.Median)
			if missing != nil {
				continue
			}
			if them, missing = pytorch(slices.Concat(theirs, []string{"--threads", threads, "--variant", variant})...); missing != nil {
				continue
			}
			variant = them.Variant // the trial's choice, once for all rounds
			theirTimes = append(theirTimes, them.Step.Median)
		}
		s := &rows.Sample{What: "threads: " + threads, Note: "no PyTorch"}
		s.Add("ours", "s", ourTimes...)
		s.Add("resident", "MiB", float64(us.RSS>>20))
		if missing == nil {
			s.Add("PyTorch", "s", theirTimes...)
			s.Add("resident", "MiB", float64(them.RSS>>20))
			s.Add("ratio", "", ratios(ourTimes, theirTimes)...)
			s.Note = fmt.Sprintf("PyTorch %s, %s, %s", them.Version, them.BLAS, them.Variant)
			if threads == "1" && compare != nil {
				note, err := compare(variant)
				if err != nil {
					return err
				}
				s.Note += "; " + note
			}
		}
		if err := b.add(s); err != nil {
			return err
		}
	}
	if missing != nil {
		return fmt.Errorf("PyTorch: %w", missing)
	}
	return nil
}

func pytorch(args ...string) (timed, error) {
	return runJSON("/usr/bin/python3", append([]string{"bench/peers/pytorch.py"}, args...)...)
}

// simulate times the paper's largest model on modelled devices.
func (b *bench) simulate() error {
	args := []string{"simulate", "--model", "transformer-lm", "--layers", "1663", "--dim", "2048", "--ff", "8192", "--heads", "32", "--vocab", "32000",
		"--seq", "1024", "--batch", "32", "-k", "128", "-m", "32", "--device", "tpuv3", "--json"}
	var seconds []float64
	var rss int64
	for range min(b.rounds, 3) {
		start := time.Now()
		_, most, err := measured(b.command, args...)
		if err != nil {
			return err
		}
		seconds = append(seconds, time.Since(start).Seconds())
		rss = max(rss, most)
	}
	s := &rows.Sample{What: "the process"}
	s.Add("ours", "s", seconds...)
	s.Add("resident", "MiB", float64(rss>>20))
	return b.add(s)
}
