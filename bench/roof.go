package main

import (
	"context"
	"fmt"
	"regexp"

	"gpipebench/bench/rows"
	"gpipebench/internal/stats"
)

// roofline is what a core can do at most, as bench/peers/roof.c measures it.
type roofline struct {
	GFLOPS float64 `json:"gflops"`    // of multiply-adds in registers
	L2     float64 `json:"l2_gb"`     // GB/s read from the second-level cache
	Memory float64 `json:"memory_gb"` // GB/s read from memory
	Lanes  int     `json:"lanes"`
}

// cached is how many bytes roof.c reads again and again from the second-level cache.
const cached = 256 << 10

// seconds is the least time for an operation's arithmetic and traffic, which is with the second-level
// cache if all operands fit, and otherwise with memory.
func (r roofline) seconds(flops, bytes int64) float64 {
	rate := r.Memory
	if bytes <= cached {
		rate = r.L2
	}
	return max(1e-9*float64(flops)/r.GFLOPS, 1e-9*float64(bytes)/rate)
}

func measureRoof() (r roofline, err error) {
	path, remove, err := buildPeer("roof.c", "-march=native")
	defer remove()
	if err != nil {
		return r, err
	}
	return r, runPeer(&r, path)
}

// roof measures what the other rows are held against.
func (b *bench) roof() error {
	var flops, l2, memory []float64
	var r roofline
	for range b.rounds {
		var err error
		if r, err = measureRoof(); err != nil {
			return err
		}
		flops, l2, memory = append(flops, r.GFLOPS), append(l2, r.L2), append(memory, r.Memory)
	}
	s := &rows.Sample{What: "one core", Note: fmt.Sprintf("vectors of %d floats", r.Lanes)}
	s.Add("multiply-adds", "GFLOP/s", flops...)
	s.Add("second-level cache", "GB/s", l2...)
	s.Add("memory", "GB/s", memory...)
	return b.add(s)
}

// rooflines says where the time of whole steps goes on one core, and the least that it would take.
func (b *bench) rooflines() error {
	for _, r := range rows.List {
		n, ok := networks[r.Name]
		if !ok {
			continue
		}
		roof, err := measureRoof()
		if err != nil {
			return err
		}
		s, err := n.held(r.Name, b.rounds, roof)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		if err := b.add(s); err != nil {
			return err
		}
	}
	return nil
}

// held holds the steps of one network against a roofline, by kind of layer.
func (n network) held(name string, rounds int, roof roofline) (*rows.Sample, error) {
	t, batch, err := n.open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if _, err := t.Step(context.Background(), batch); err != nil { // warms up
		return nil, err
	}
	profile := t.Profile()
	var seconds []float64
	for range rounds {
		r, err := t.Step(context.Background(), batch)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, r.Seconds)
	}
	s := &rows.Sample{What: name, Note: fmt.Sprintf("%.0f GFLOP/s, %.0f GB/s from the second-level cache, %.0f GB/s from memory", roof.GFLOPS, roof.L2, roof.Memory)}
	least := 0.0
	for _, row := range profile.Rows() {
		k := rows.Kind{Name: variety.ReplaceAllString(row.Op, ""), Seconds: row.Seconds}
		if row.Calls > 0 {
			of := func(flops, bytes float64) float64 { // no more than it took, with operands from a larger cache
				return min(row.Seconds, row.Calls*roof.seconds(int64(flops/row.Calls), int64(bytes/row.Calls)))
			}
			k.Least = of(row.FLOPs, row.Bytes)
			k.Arithmetic = of(row.FLOPs, 0)
		}
		least += k.Least
		s.AddKind(k)
	}
	s.Add("step", "s", seconds...)
	s.Add("at least", "s", least)
	s.Add("over it", "", stats.Median(seconds)/least)
	return s, nil
}

// variety is what follows a kind of layer in the names of its operations.
var variety = regexp.MustCompile(`(-(grad|input|weight|param|moments|stats|tally|totals|wide|over|at|bt)\b|\+).*`)
