package playground

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Ways has the columns of the Transformer's half of Table 1: K accelerators, and one that trains naively.
var Ways = []Way{
	{Name: "Naive-1", K: 1, Naive: true, Paper: 3}, {Name: "Pipeline-1", K: 1, Paper: 13}, {Name: "Pipeline-8", K: 8, Paper: 103},
	{Name: "Pipeline-32", K: 32, Paper: 415}, {Name: "Pipeline-128", K: 128, Paper: 1663},
}

// Way is how a network is trained: in one piece with every activation kept, or as GPipe does it.
type Way struct {
	Name  string `json:"name"`
	K     int    `json:"k"`
	Naive bool   `json:"naive"`
	Paper int    `json:"paper"` // layers of the paper's network, on accelerators of 16 GB
}

// Largest is the largest network that fits.
type Largest struct {
	Way
	Layers int   `json:"layers"` // 0: not even the smallest
	Params int64 `json:"params"`
	Peak   int64 `json:"peak"` // bytes of the fullest device
}

// Searching finds the largest Transformer of Table 1 that fits devices of some memory, as the
// experiment table1 does by its first convention: activations of two bytes, attention keeps its
// probabilities, 12 bytes a parameter, micro-batches of one example, cut by minimum variance of
// FLOPs (section 2.2 of the paper). The stages between the first and the last are alike, so one of
// each size is planned. It keeps what it has planned, for the next search. The zero value is ready.
type Searching struct {
	stages map[string][]int64
	costs  []float64 // of the first layer, one of those between, and the last
}

// tableBatch is the mini-batch of Table 1's Transformers.
const tableBatch = 32

func (w Way) pipeline(layers int, balance []int) (gpipe.Pipeline, gpipe.Input, error) {
	ids := graph.Type{Shape: graph.Shape{1024}, DType: graph.I32}
	in := gpipe.Input{Examples: tableBatch, Inputs: []graph.Type{ids}, Targets: []graph.Type{ids}}
	all, err := transformer.LM(transformer.Config{Layers: layers, Dim: 2048, FeedForward: 8192, Heads: 32, Vocab: 32000, SeqLen: 1024})
	if err != nil {
		return gpipe.Pipeline{}, in, err
	}
	a, err := accelerator.Named("tpuv3")
	if err != nil {
		return gpipe.Pipeline{}, in, err
	}
	p := gpipe.Pipeline{
		Layers: all, Loss: nn.CrossEntropy{}, Partitions: len(balance), MicroBatches: tableBatch, Cut: gpipe.Cut{Balance: balance},
		Numerics: gpipe.Numerics{Optimizer: nn.RMSProp{}}, Devices: []gpipe.Device{gpipe.DeviceOf(a)},
	}
	if w.Naive {
		p.MicroBatches, p.Schedule, p.Checkpoint = 1, schedule.Naive, schedule.Never
	}
	return p, in, nil
}

// peaks are the bytes of each stage of a network that is cut into one or three.
func (s *Searching) peaks(w Way, balance []int) ([]int64, error) {
	key := fmt.Sprint(w.Naive, balance)
	if got, ok := s.stages[key]; ok {
		return got, nil
	}
	layers := -2
	for _, n := range balance {
		layers += n
	}
	p, in, err := w.pipeline(layers, balance)
	if err != nil {
		return nil, err
	}
	devices, err := p.Estimate(in, gpipe.Modelling{DType: graph.BF16, KeepScores: true})
	if err != nil {
		return nil, err
	}
	var peaks []int64
	for _, d := range devices {
		peaks = append(peaks, d.PeakBytes)
	}
	if s.stages == nil {
		s.stages = map[string][]int64{}
	}
	s.stages[key] = peaks
	return peaks, nil
}

// peak is what the fullest device of a network takes.
func (s *Searching) peak(w Way, layers int) (int64, error) {
	if w.K == 1 {
		peaks, err := s.peaks(w, []int{layers + 2})
		return slices.Max(append(peaks, 0)), err
	}
	if s.costs == nil {
		p, in, err := w.pipeline(1, []int{3})
		if err != nil {
			return 0, err
		}
		d, err := p.Counted(in)
		if err != nil {
			return 0, err
		}
		s.costs = d.FLOPs()
	}
	cut, err := partition.Split(partition.MinVariance, slices.Concat(s.costs[:1], slices.Repeat(s.costs[1:2], layers), s.costs[2:]), w.K)
	if err != nil {
		return 0, err
	}
	most := int64(0)
	first, between, last := cut.Sizes[0], cut.Sizes[1:w.K-1], cut.Sizes[w.K-1]
	for _, size := range slices.Compact(slices.Sorted(slices.Values(between))) {
		peaks, err := s.peaks(w, []int{first, size, last})
		if err != nil {
			return 0, err
		}
		most = max(most, slices.Max(peaks))
	}
	return most, nil
}

// Search finds the largest network of a way that fits devices of the given bytes, by
// galloping from a guess and then by bisection: a larger network takes more memory.
func (s *Searching) Search(w Way, bytes int64) (Largest, error) {
	fits, not := max(0, w.K-3), 0 // the most layers known to fit, or one less than can be cut; the fewest known not to, 0: none
	at, err := s.guess(w, bytes)
	for step := 1; err == nil && (not == 0 || not-fits > 1); step *= 2 {
		if at <= fits || not > 0 && at >= not {
			at = (fits + max(not, fits+2)) / 2
		}
		var peak int64
		if peak, err = s.peak(w, at); err != nil {
			return Largest{}, err
		}
		if peak <= bytes {
			fits, at = at, at+step
		} else {
			not, at = at, at-step
		}
	}
	if err != nil {
		return Largest{}, err
	}
	out := Largest{Way: w, Layers: fits}
	if fits < max(1, w.K-2) {
		out.Layers = 0
		return out, nil
	}
	if out.Peak, err = s.peak(w, fits); err != nil {
		return out, err
	}
	out.Params, err = tableParams(fits)
	return out, err
}

// guess is about how many layers fit, as the memory of a stage grows evenly with its layers. The first
// stage and the last have about three fewer together than two others.
func (s *Searching) guess(w Way, bytes int64) (int, error) {
	of, less := func(n int) []int { return []int{2, n, 2} }, 3
	if w.K == 1 {
		of, less = func(n int) []int { return []int{2 + n} }, 0
	}
	one, errOne := s.peaks(w, of(1))
	two, errTwo := s.peaks(w, of(2))
	if err := errors.Join(errOne, errTwo); err != nil {
		return 0, err
	}
	i := len(one) / 2
	return int((bytes-one[i])/(two[i]-one[i])+1)*w.K - less, nil
}

// tableParams counts the parameters of a Transformer of Table 1: its layers are of one size.
func tableParams(layers int) (int64, error) {
	var of [2]int64
	for i := range of {
		p, _, err := Way{}.pipeline(1+i, []int{3 + i})
		if err != nil {
			return 0, err
		}
		of[i] = nn.CountParams(p.Layers)
	}
	return of[0] + int64(layers-1)*(of[1]-of[0]), nil
}
