// Package playground is a page on which networks train in a browser, cut into pipelines: the
// engine compiled to WebAssembly (folder engine, of js/wasm alone) in a worker of the page
// (folder page), with the schedules' page of simulate/schedulepage. `make playground` builds
// its files, which any server of files can serve; with the build tag playground they are in the
// program, as Site.
//
// What is in WebAssembly is nn, gpipe, models and datasets, and this package: no experiment, plot,
// font or command, so that the files stay below the sizes that make checks. That is why the
// networks stand here as their layers and numbers, not as flags of a command. Each is a
// command of README, [Settings.Command], and a test runs both.
package playground

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/models/resnet"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Settings are what a reader of the page chooses.
type Settings struct {
	Net        string `json:"net"` // a name in Nets
	K          int    `json:"k"`
	M          int    `json:"m"`
	Schedule   string `json:"schedule"`   // a synchronous one
	Checkpoint string `json:"checkpoint"` // always, except-last or never
	Cut        []int  `json:"cut"`        // layers of each piece of the network; empty: by FLOPs
	Seed       uint64 `json:"seed"`
}

// Defaults are the settings of README's commands.
func Defaults(net string) Settings {
	return Settings{Net: net, K: 4, M: 4, Schedule: schedule.GPipe.String(), Checkpoint: schedule.Always.String(), Seed: 1}
}

// net is a network, what it learns from, and how.
type net struct {
	name, title string
	flags       string // of gpipebench train
	batch       int
	steps       int
	batchNorm   bool // M is a part of the function
	layers      func() ([]nn.Layer, error)
	source      func(seed uint64) (datasets.Source, error)
	input       func(examples int) gpipe.Input
	numerics    gpipe.Numerics
	rate        string // as nn.LRUnits.Parse reads it
	lr          float64
}

var nets = []net{{
	name: "digits", title: "digits of 8 × 8 pixels: a ResNet-20 of width 4, with batch norm",
	flags: "--model resnet20 --data synthetic-digits --width 4 --batch 32 --steps 75 --lr 0.02",
	batch: 32, steps: 75, batchNorm: true,
	layers: func() ([]nn.Layer, error) {
		return resnet.New(resnet.Config{Depth: 20, Width: 4, Classes: 10, Image: 8, Channels: 1})
	},
	source: func(seed uint64) (datasets.Source, error) {
		return datasets.NewSyntheticDigits(datasets.Config{Seed: seed})
	},
	input: func(examples int) gpipe.Input {
		return gpipe.Input{Examples: examples, Inputs: []graph.Type{{Shape: graph.Shape{8, 8, 1}, DType: graph.F32}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}}}
	},
	numerics: gpipe.Numerics{Optimizer: nn.Adam{}, L2: 0.0001}, rate: "warmup:7,cosine:68", lr: 0.02,
}, {
	name: "lm", title: "a language model: 6 Transformer layers of width 32",
	flags: "--layers 6 --dim 32 --ff 64 --heads 2 --vocab 16 --seq 16 --batch 16 --steps 75 --lr 0.01 --dropout 0",
	batch: 16, steps: 75,
	layers: func() ([]nn.Layer, error) {
		return transformer.LM(transformer.Config{Layers: 6, Dim: 32, FeedForward: 64, Heads: 2, Vocab: 16, SeqLen: 16})
	},
	source: func(seed uint64) (datasets.Source, error) {
		return datasets.NewSynthetic(datasets.Config{Seed: seed, SeqLen: 16, Synthetic: datasets.SyntheticConfig{Vocab: 16}})
	},
	input: func(examples int) gpipe.Input {
		ids := graph.Type{Shape: graph.Shape{16}, DType: graph.I32}
		return gpipe.Input{Examples: examples, Inputs: []graph.Type{ids}, Targets: []graph.Type{ids}}
	},
	numerics: gpipe.Numerics{Optimizer: nn.Adam{}, ClipNorm: 1}, rate: "inverse-sqrt:18", lr: 0.01,
}}

// Nets lists the networks' names.
func Nets() (names []string) {
	for _, n := range nets {
		names = append(names, n.name)
	}
	return names
}

func (s Settings) net() (net, error) {
	i := slices.IndexFunc(nets, func(n net) bool { return n.name == s.Net })
	if i < 0 {
		return net{}, fmt.Errorf("unknown network %q: want %s", s.Net, strings.Join(Nets(), " or "))
	}
	return nets[i], nil
}

// Command is the command that trains the same.
func (s Settings) Command() (string, error) {
	n, err := s.net()
	if err != nil {
		return "", err
	}
	command := fmt.Sprintf("gpipebench train %s -k %d -m %d", n.flags, s.K, s.M)
	standard := Defaults(s.Net)
	if s.Schedule != standard.Schedule {
		command += " --schedule " + s.Schedule
	}
	if s.Checkpoint != standard.Checkpoint {
		command += " --checkpoint " + s.Checkpoint
	}
	if len(s.Cut) > 0 {
		command += " --balance " + strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Cut), "[]"), " ", ",")
	}
	if s.Seed != standard.Seed {
		command += " --seed " + strconv.FormatUint(s.Seed, 10)
	}
	return command, nil
}

// Function names what decides the weights' bits: trainings of one function end with one hash.
func (s Settings) Function() string {
	function := s.Net + " seed=" + strconv.FormatUint(s.Seed, 10)
	if n, err := s.net(); err == nil && n.batchNorm {
		function += " m=" + strconv.Itoa(s.M)
	}
	return function
}

// published has a line for each function whose hash is known: its name, a tab, and the hash. A
// native build makes it (go test ./playground -run Published -update).
//
//go:embed testdata/published.txt
var published string

// Published is the SHA-256 that a training must end with; "": it is not known.
func (s Settings) Published() string {
	for line := range strings.Lines(published) {
		if function, hash, _ := strings.Cut(strings.TrimSpace(line), "\t"); function == s.Function() {
			return hash
		}
	}
	return ""
}

// pipeline is the pipeline on emulated devices, whose times are of each task alone.
func (s Settings) pipeline() (p gpipe.Pipeline, n net, err error) {
	if n, err = s.net(); err != nil {
		return p, n, err
	}
	p = gpipe.Pipeline{Partitions: s.K, MicroBatches: s.M, Loss: nn.CrossEntropy{Ranks: n.batchNorm}, Cut: gpipe.Cut{Balance: s.Cut}, Numerics: n.numerics, Devices: []gpipe.Device{{Kind: gpipe.Emulated}}}
	if p.Schedule, err = schedule.Parse(s.Schedule); err != nil {
		return p, n, err
	}
	if p.Checkpoint, err = schedule.ParseCheckpoint(s.Checkpoint); err != nil {
		return p, n, err
	}
	if p.Layers, err = n.layers(); err != nil {
		return p, n, err
	}
	if p.LR, err = (nn.LRUnits{Batch: n.batch}).Parse(n.rate, n.lr); err != nil {
		return p, n, err
	}
	p.Seed, p.Evaluating = s.Seed, n.input(n.batch)
	if len(s.Cut) == 0 {
		p.Balance = nil
	}
	return p, n, p.Validate(n.input(n.batch))
}
