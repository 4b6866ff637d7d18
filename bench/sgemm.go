package main

import (
	"fmt"
	"strconv"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// sgemm compares square matrix products with OpenBLAS, in turns.
func (b *bench) sgemm() error {
	peer, remove, missing := buildPeer("openblas.c", "-lopenblas", "-lm")
	defer remove()
	for _, n := range []int{256, 512, 768, 1024} {
		product := program.NewTimed(1, (*graph.Graph).MatMul, n, n)
		defer product.Close()
		if _, err := product.Seconds(0); err != nil { // warms up
			return err
		}
		var ours, theirs []float64
		var config string
		for range b.rounds {
			seconds, err := product.Seconds(100 * time.Millisecond)
			if err != nil {
				return err
			}
			ours = append(ours, 2e-9*float64(n*n*n)/seconds)
			if missing == nil {
				var rate float64
				rate, config, missing = rateOf(peer, n)
				theirs = append(theirs, rate)
			}
		}
		s := &rows.Sample{What: fmt.Sprintf("n = %d", n)}
		s.Add("ours", "GFLOP/s", ours...)
		if missing == nil {
			s.Add("OpenBLAS", "GFLOP/s", theirs...)
			s.Add("ratio", "", ratios(ours, theirs)...)
			s.Note = config
		} else {
			s.Note = "no OpenBLAS"
		}
		if err := b.add(s); err != nil {
			return err
		}
	}
	if missing != nil {
		return fmt.Errorf("OpenBLAS: %w", missing)
	}
	return nil
}

// rateOf returns OpenBLAS' GFLOP/s, and how it was built.
func rateOf(peer string, n int) (rate float64, config string, err error) {
	var line struct {
		GFLOPS float64 `json:"gflops"`
		Config string  `json:"config"`
	}
	err = runPeer(&line, peer, strconv.Itoa(n))
	return line.GFLOPS, line.Config, err
}
