package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/internal/kernel"
)

// depthwiseLayers are depthwise convolutions of AmoebaNet-B (6, 64) on images of 224 pixels,
// four at a time: pixels a side, channels, kernel, stride.
var depthwiseLayers = [][4]int{{56, 16, 3, 2}, {28, 64, 3, 1}, {28, 128, 5, 1}, {14, 128, 3, 1}, {7, 256, 3, 1}}

// depthwiseParts are what is timed of a layer.
var depthwiseParts = []string{"forward", "input's gradient", "weight's gradient"}

// depthwise compares depthwise convolutions and their gradients with PyTorch's on one
// core, in turns: each round one process of the peer with all layers.
func (b *bench) depthwise() error {
	type times [][]float64 // by layer and part, seconds
	var ours, theirs []times
	var version string
	var missing error
	for range b.rounds {
		round := make(times, len(depthwiseLayers))
		for i, l := range depthwiseLayers {
			for _, f := range depthwiseRuns(l) {
				round[i] = append(round[i], secondsOf(f, 50*time.Millisecond))
			}
		}
		ours = append(ours, round)
		if missing != nil {
			continue
		}
		var out []byte
		var said struct {
			Seconds times  `json:"seconds"`
			Version string `json:"version"`
		}
		if out, _, missing = measured("/usr/bin/python3", depthwiseArgs()...); missing == nil {
			missing = json.Unmarshal(out, &said)
		}
		theirs, version = append(theirs, said.Seconds), said.Version
	}
	for i, l := range depthwiseLayers {
		for j, part := range depthwiseParts {
			of := func(all []times) (microseconds []float64) {
				for _, round := range all {
					microseconds = append(microseconds, 1e6*round[i][j])
				}
				return microseconds
			}
			s := &rows.Sample{What: fmt.Sprintf("%dx%d, %d channels, %dx%d, stride %d: %s", l[0], l[0], l[1], l[2], l[2], l[3], part)}
			s.Add("ours", "us", of(ours)...)
			s.Note = "no PyTorch"
			if missing == nil {
				s.Add("PyTorch", "us", of(theirs)...)
				s.Add("of its time", "", ratios(of(ours), of(theirs))...)
				s.Note = version
			}
			if err := b.add(s); err != nil {
				return err
			}
		}
	}
	if missing != nil {
		return fmt.Errorf("PyTorch: %w", missing)
	}
	return nil
}

// depthwiseArgs starts the peer on the layers.
func depthwiseArgs() []string {
	args := []string{"bench/peers/pytorch_depthwise.py"}
	for _, l := range depthwiseLayers {
		for _, n := range l {
			args = append(args, strconv.Itoa(n))
		}
	}
	return args
}

// depthwiseRuns returns a layer's parts, ready to run.
func depthwiseRuns(l [4]int) []func() {
	size, channels, side, stride := l[0], l[1], l[2], l[3]
	out := (size + stride - 1) / stride
	before := max((out-1)*stride+side-size, 0) / 2
	d := kernel.Depthwise{
		N: 4, H: size, W: size, C: channels, KH: side, KW: side, StrideH: stride, StrideW: stride,
		Dilation: 1, Top: before, Left: before, OH: out, OW: out,
	}
	floats := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(i%17) - 8
		}
		return v
	}
	x, y, w := floats(d.N*d.H*d.W*d.C), floats(d.N*d.OH*d.OW*d.C), floats(d.KH*d.KW*d.C)
	dy, dx, dw := floats(len(y)), floats(len(x)), floats(len(w))
	return []func(){
		func() { kernel.DepthwiseForward(d, y, x, w, 0, d.N*d.OH) },
		func() { kernel.DepthwiseGradInput(d, dx, dy, w, 0, d.N*d.H) },
		func() { kernel.DepthwiseGradWeight(d, dw, x, dy, false, 0, d.KH, 0, d.C) },
	}
}

// secondsOf returns the time of one call, of as many as fill a time, after one that warms up.
func secondsOf(f func(), fill time.Duration) float64 {
	f()
	calls, start := 0, time.Now()
	for time.Since(start) < fill {
		for range 8 {
			f()
		}
		calls += 8
	}
	return time.Since(start).Seconds() / float64(calls)
}
