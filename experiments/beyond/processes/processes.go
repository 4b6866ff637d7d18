// Package processes shows that training does not depend on the processes that it is
// divided over.
package processes

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gpipebench/experiments/launch"
	"gpipebench/gpipe"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/place"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "processes", Folder: folder, New: lab.New[processes]}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Networks  []string           `yaml:"networks" want:"network"`
	Processes []int              `yaml:"processes" want:"2..64"`
	Trainings []training         `yaml:"trainings"`
	Profiles  map[string]profile `yaml:"profiles"`
}

// training is one whose weights must be the same however it is divided.
type training struct {
	Name      string      `yaml:"name" want:"name,key"`
	Title     string      `yaml:"title" want:"shown"`
	Model     train.Model `yaml:"model"`
	Batch     int         `yaml:"batch" want:"1..65536"`
	Optimizer string      `yaml:"optimizer" want:"optimizer"`
	LR        float64     `yaml:"lr" want:">0.."`
	ClipNorm  float64     `yaml:"clip_norm" want:">0.."`
	G         int         `yaml:"g" want:"1..65536"`
	M         int         `yaml:"m" want:"1..65536"` // of each group
	Scope     string      `yaml:"bn_scope" want:"scope,optional"`
	Shapes    []shape     `yaml:"shapes"`
}

// shape is how many devices a training has.
type shape struct {
	K     int  `yaml:"k" json:"k" want:"1..64"`
	R     int  `yaml:"r" json:"r" want:"1..64"`
	Shard bool `yaml:"shard_update" json:"shard_update,omitempty"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Steps    int      `yaml:"steps" want:"1..100000"`
}

// Way is how a training is run: its devices, and how they are divided over processes.
type Way struct {
	shape
	Processes int    `json:"processes"`
	Network   string `json:"network,omitempty"` // "": one process
	Spread    string `json:"spread,omitempty"`  // the order in which processes get devices; "": one process
}

// processes trains in several ways and compares weights, and bytes with the plan.
type processes struct {
	lab.Base[spec]
	launch.Program
}

func (x *processes) Resolve() *lab.Problem {
	for i, t := range x.Spec.Trainings {
		for j, s := range t.Shapes {
			if each := t.G / s.R; t.G%s.R != 0 || s.R > 1 && each&(each-1) != 0 {
				return lab.At(fmt.Errorf("%d replicas of %d groups: want each to have a power of two of them", s.R, t.G), "trainings", fmt.Sprint(i), "shapes", fmt.Sprint(j), "r")
			}
		}
		if !slices.ContainsFunc(x.Spec.ways(&t), func(w Way) bool { return w.Processes > 1 }) {
			return lab.At(errors.New("no shape has a device for each of several processes: want one"), "trainings", fmt.Sprint(i), "shapes")
		}
	}
	return nil
}

// ways are those of a training, first in one process.
func (s *spec) ways(t *training) (all []Way) {
	for _, of := range t.Shapes {
		all = append(all, Way{shape: of, Processes: 1})
	}
	for _, of := range t.Shapes {
		for _, n := range s.Processes {
			for _, spread := range spreads(of, n) {
				for _, network := range s.Networks {
					all = append(all, Way{of, n, network, spread})
				}
			}
		}
	}
	return all
}

// spreads are the orders that divide a shape's devices in different ways over processes;
// none if there are too few devices.
func spreads(of shape, processes int) []string {
	owners := func(byStage bool) (all []int) {
		s := cluster.Spread{Replicas: of.R, Stages: of.K, Processes: processes, ByStage: byStage}
		for _, p := range place.Of(of.R, of.K) {
			all = append(all, s.Owner(p))
		}
		return all
	}
	switch {
	case of.K*of.R < processes:
		return nil
	case slices.Equal(classes(owners(false)), classes(owners(true))):
		return []string{"replica"}
	}
	return []string{"replica", "stage"}
}

// classes numbers owners in the order in which they come: two divisions with the same are
// one but for the ranks.
func classes(owners []int) (all []int) {
	seen := map[int]int{}
	for _, o := range owners {
		if _, ok := seen[o]; !ok {
			seen[o] = len(seen)
		}
		all = append(all, seen[o])
	}
	return all
}

func (w Way) update() string {
	if w.Shard {
		return "divided"
	}
	return "whole"
}

// sample is the name of a way's sample.
func (t *training) sample(w Way) string {
	name := fmt.Sprintf("%s/K=%d/R=%d/update=%s/processes=%d", t.Name, w.K, w.R, w.update(), w.Processes)
	if w.Processes > 1 {
		name += "/spread=" + w.Spread + "/" + w.Network
	}
	return name
}

// arguments are a way's command.
func (t *training) arguments(w Way, steps int, seed uint64) []string {
	args := append([]string{
		"train", "--batch", strconv.Itoa(t.Batch), "--steps", strconv.Itoa(steps), "--seed", strconv.FormatUint(seed, 10),
		"--optimizer", t.Optimizer, "--lr", decimal(t.LR), "--lr-schedule", "constant", "--clip-norm", decimal(t.ClipNorm),
		"--groups", strconv.Itoa(t.G), "-m", strconv.Itoa(t.M), "-k", strconv.Itoa(w.K), "--replicas", strconv.Itoa(w.R),
	}, t.Model.Flags()...)
	if !t.Model.Images() {
		args = append(args, "--dropout", decimal(t.Model.Dropout))
	}
	if t.Scope != "" {
		args = append(args, "--bn-scope", t.Scope)
	}
	if w.Shard {
		args = append(args, "--shard-update")
	}
	if w.Processes > 1 {
		args = append(args, "--spread", w.Spread)
	}
	return args
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Record is one run.
type Record struct {
	Run       Way               `json:"run"`
	Command   []string          `json:"command"` // of each process
	Losses    []float64         `json:"losses"`
	Initial   string            `json:"initial_sha256"`
	SHA256    string            `json:"weights_sha256"`
	Peak      []int64           `json:"peak_bytes"`
	HighWater []int64           `json:"high_water_bytes"`
	Processes []train.Process   `json:"processes,omitempty"` // none: one
	Traffic   []train.Travelled `json:"traffic,omitempty"`   // of a step, from process to process
}

// Check requires losses, both hashes, memory of each device, and of several processes as
// many with what they sent.
func (r *Record) Check() error {
	switch n := len(r.Processes); {
	case len(r.Losses) == 0:
		return errors.New("no losses")
	case len(r.Peak) != r.Run.K*r.Run.R || len(r.HighWater) != len(r.Peak):
		return fmt.Errorf("memory planned of %d devices and used of %d, want %d x %d", len(r.Peak), len(r.HighWater), r.Run.R, r.Run.K)
	case max(n, 1) != r.Run.Processes || n > 0 && len(r.Traffic) == 0:
		return fmt.Errorf("%d processes that sent %d kinds of tensors, want %d processes", n, len(r.Traffic), r.Run.Processes)
	}
	return errors.Join(records.CheckHash("initial_sha256", r.Initial), records.CheckHash("weights_sha256", r.SHA256))
}

// exact reports whether what was sent is what was planned, to the byte.
func (r *Record) exact() bool {
	return !slices.ContainsFunc(r.Traffic, func(t train.Travelled) bool { return t.Bytes != t.PlannedBytes })
}

// Measure runs each way in processes of its own.
func (x *processes) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range x.Spec.Trainings {
		t := &x.Spec.Trainings[i]
		ways := slices.DeleteFunc(x.Spec.ways(t), func(w Way) bool {
			return launch.Lacks(w.Network) != "" || log.Has(t.sample(w))
		})
		if len(ways) == 0 {
			continue
		}
		p.Begin(fmt.Sprintf("%s, %s: %d steps in each of %d ways", x.ID(), t.Name, profile.Steps, len(ways)), len(ways))
		for _, w := range ways {
			if err := ctx.Err(); err != nil {
				return err
			}
			args := t.arguments(w, profile.Steps, x.Spec.Seed)
			var r train.Result
			if err := x.Run(ctx, w.Processes, w.Network, args, &r); err != nil {
				return fmt.Errorf("%s: %w", t.sample(w), err)
			}
			if err := log.Add(t.sample(w), x.Spec.Seed, Record{
				w, args, r.Losses, r.InitialSHA256, r.WeightsSHA256, r.PeakBytes, r.HighWaterBytes, r.Processes, r.Traffic,
			}); err != nil {
				return err
			}
			p.Advance(fmt.Sprintf("%.10s  %s", r.WeightsSHA256, t.sample(w)))
		}
		p.End()
	}
	return nil
}

// Planned are the trainings in one process.
func (x *processes) Planned(profile string) (list []lab.PlannedRun) {
	for i, t := range x.Spec.Trainings {
		for j, s := range t.Shapes {
			list = append(list, lab.PlannedRun{Path: []string{"trainings", fmt.Sprint(i), "shapes", fmt.Sprint(j)}, Run: train.Training{
				Model: t.Model, Data: "synthetic", Batch: t.Batch, Steps: x.Spec.Profiles[profile].Steps, Seed: x.Spec.Seed,
				Optimizer: t.Optimizer, LR: t.LR, LRSchedule: "constant", ClipNorm: t.ClipNorm,
				Setup: train.Setup{
					Partitions: s.K, MicroBatches: t.M, Replicas: s.R, Groups: t.G, ShardUpdate: s.Shard,
					BNScope: lab.Named(gpipe.ParseScope, t.Scope),
				},
			}})
		}
	}
	return list
}

// numbers are those of a set, in order.
func numbers(set map[int]bool) string {
	return lab.JoinWith(slices.Sorted(maps.Keys(set)), ", ")
}
