package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/internal/stats"
)

type timed struct {
	Step struct {
		Median float64 `json:"median"`
	} `json:"step_seconds"`
	RSS     int64     `json:"-"` // as the system reports when the process has ended
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

// pytorch runs the peer on a network.
func (n network) pytorch(steps, warmUp int, threads, variant string, more ...string) (timed, error) {
	return runJSON("/usr/bin/python3", slices.Concat([]string{"bench/peers/pytorch.py"}, n.flags(), []string{
		"--steps", strconv.Itoa(steps), "--warmup", strconv.Itoa(warmUp), "--threads", threads,
		"--variant", variant, "--trial-steps", strconv.Itoa(cmp.Or(n.trial, 4)),
	}, more)...)
}

// steps times whole training steps of the row's network, each side in a process of
// its own, in turns, with each number of threads. It checks that both compute the same.
func (b *bench) steps() error {
	n := networks[b.row.Name]
	ours := append([]string{"bench", "-k", "1", "-m", "1", "--checkpoint", "never", "--json",
		"--steps", strconv.Itoa(n.steps), "--warmup", strconv.Itoa(n.warmUp)}, n.flags()...)
	var missing error
	for i, threads := range b.threads {
		var us, them timed
		var ourTimes, theirTimes []float64
		variant := "best"
		for range b.rounds {
			var err error
			if us, err = runJSON(b.command, slices.Concat(ours, []string{"--threads", threads})...); err != nil {
				return err
			}
			ourTimes = append(ourTimes, us.Step.Median)
			if missing != nil {
				continue
			}
			if them, missing = n.pytorch(n.steps, n.warmUp, threads, variant); missing != nil {
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
			if i == 0 && n.like == "" {
				note, err := n.compare(variant)
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

// simulate times the paper's largest model on modelled devices.
func (b *bench) simulate() error {
	const args = "simulate --model transformer-lm --layers 1663 --dim 2048 --ff 8192 --heads 32 --vocab 32000 --seq 1024 --batch 32 -k 128 -m 32 --device tpuv3 --json"
	s, err := b.process("the process", args)
	if err != nil {
		return err
	}
	return b.add(s)
}

// simulateScale doubles the tasks of a step again and again, of small layers, one a device.
func (b *bench) simulateScale() error {
	for _, k := range []int{128, 512} {
		for m := 512; m <= 4096; m *= 2 {
			s, err := b.process(fmt.Sprintf("K = %d, M = %d", k, m), fmt.Sprintf("simulate --model transformer-lm --layers %d --device v100 -k %[1]d -m %d --batch %[2]d --json", k, m))
			if err != nil {
				return err
			}
			tasks := float64(3 * k * m)
			s.Add("a task", "ns", 1e9*stats.Median(s.Figures[0].Values)/tasks)
			s.Add("tasks", "million", tasks/1e6)
			if err := b.add(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// process measures the time and memory of a command.
func (b *bench) process(what, args string) (*rows.Sample, error) {
	var seconds []float64
	var rss int64
	for range min(b.rounds, 3) {
		start := time.Now()
		_, most, err := measured(b.command, strings.Fields(args)...)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
		rss = max(rss, most)
	}
	s := &rows.Sample{What: what}
	s.Add("ours", "s", seconds...)
	s.Add("resident", "MiB", float64(rss>>20))
	return s, nil
}
