package timed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/cluster"
	"gpipebench/internal/stats"
	"gpipebench/train"
)

// BenchSize is what profiles have whose runs are steps of the command bench.
type BenchSize struct {
	Size   `yaml:",inline"`
	Steps  int `yaml:"steps" want:"1..1000"`
	WarmUp int `yaml:"warm_up" want:"0..1000"`
}

// BenchSteps is what a run's steps of a round took.
type BenchSteps struct {
	Command []string  `json:"command"` // of each process
	Seconds []float64 `json:"step_seconds"`
}

// Check requires times.
func (r *BenchSteps) Check() error {
	if len(r.Seconds) == 0 || slices.ContainsFunc(r.Seconds, func(s float64) bool { return s <= 0 }) {
		return fmt.Errorf("%d times of steps, want some above 0", len(r.Seconds))
	}
	return nil
}

// Median is the steps' median.
func (r *BenchSteps) Median() float64 { return stats.Median(r.Seconds) }

// BenchTravels is the same with what processes sent each other.
type BenchTravels struct {
	BenchSteps
	Processes []train.Process   `json:"processes,omitempty"` // none: one
	Traffic   []train.Travelled `json:"traffic,omitempty"`   // of a step, from process to process
}

// Check requires times, and of several processes what they sent.
func (r *BenchTravels) Check() error {
	if (len(r.Processes) > 0) != (len(r.Traffic) > 0) {
		return errors.New("processes without what they sent")
	}
	return r.BenchSteps.Check()
}

// BenchTraining is what the command bench trains.
func BenchTraining(m train.Model, batch, steps int, seed uint64, s train.Setup) train.Training {
	return train.Training{Model: m, Batch: batch, Steps: steps, Seed: seed, Optimizer: "momentum", LR: 0.01, LRSchedule: "constant", Setup: s}
}

// BenchArguments are the command bench for a training, with more flags.
func BenchArguments(t train.Training, warmUp int, more ...string) []string {
	args := []string{
		"bench", "--batch", strconv.Itoa(t.Batch), "--steps", strconv.Itoa(t.Steps), "--warmup", strconv.Itoa(warmUp),
		"--seed", strconv.FormatUint(t.Seed, 10), "--checkpoint", t.Setup.Checkpoint.String(), "--threads", strconv.Itoa(t.Setup.Threads),
		"-m", strconv.Itoa(t.Setup.MicroBatches), "-k", strconv.Itoa(t.Setup.Partitions), "--replicas", strconv.Itoa(t.Setup.Replicas),
	}
	return slices.Concat(args, more, t.Model.Flags())
}

// StartBench runs the command in processes of its own.
func StartBench(ctx context.Context, p *cluster.Program, processes int, network string, args []string) (*BenchTravels, error) {
	var b train.Bench
	err := p.Run(ctx, processes, network, args, &b)
	return &BenchTravels{BenchSteps{args, b.StepSeconds.All}, b.Processes, b.Traffic}, err
}
