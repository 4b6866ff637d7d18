package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/nn/program"
)

// sgemm compares square matrix products with OpenBLAS, in turns.
func (b *bench) sgemm() error {
	peer, cleanup, missing := buildOpenBLAS()
	defer cleanup()
	for _, n := range []int{256, 512, 768, 1024} {
		product := program.NewProduct(n)
		defer product.Close()
		if _, err := product.Rate(0); err != nil { // warms up
			return err
		}
		var ours, theirs []float64
		for range b.rounds {
			rate, err := product.Rate(100 * time.Millisecond)
			if err != nil {
				return err
			}
			ours = append(ours, rate/1e9)
			if missing == nil {
				rate, missing = peer.rate(n)
				theirs = append(theirs, rate)
			}
		}
		s := &rows.Sample{What: fmt.Sprintf("n = %d", n)}
		s.Add("ours", "GFLOP/s", ours...)
		if missing == nil {
			s.Add("OpenBLAS", "GFLOP/s", theirs...)
			s.Add("ratio", "", ratios(ours, theirs)...)
			s.Note = peer.config
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

type openBLAS struct {
	path   string
	config string
}

func buildOpenBLAS() (*openBLAS, func(), error) {
	dir, err := os.MkdirTemp("", "openblas")
	cleanup := func() { _ = os.RemoveAll(dir) }
	if err != nil {
		return nil, cleanup, err
	}
	path := filepath.Join(dir, "openblas")
	cmd := exec.Command("gcc", "-O2", "-o", path, "bench/peers/openblas.c", "-lopenblas", "-lm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, cleanup, fmt.Errorf("bench/peers/openblas.c does not build (%v): %.200s", err, out)
	}
	return &openBLAS{path: path}, cleanup, nil
}

func (o *openBLAS) rate(n int) (float64, error) {
	cmd := exec.Command(o.path, strconv.Itoa(n))
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	var line struct {
		GFLOPS float64 `json:"gflops"`
		Config string  `json:"config"`
	}
	if err := json.Unmarshal(out, &line); err != nil {
		return 0, fmt.Errorf("%w in %.100q", err, out)
	}
	o.config = line.Config
	return line.GFLOPS, nil
}
