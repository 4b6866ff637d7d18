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
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// sgemm compares square matrix products with OpenBLAS, in turns.
func (b *bench) sgemm() error {
	peer, cleanup, missing := buildOpenBLAS()
	defer cleanup()
	for _, n := range []int{256, 512, 768, 1024} {
		product := newProduct(n)
		var ours, theirs []float64
		for range b.rounds {
			ours = append(ours, product.rate())
			if missing == nil {
				var rate float64
				rate, missing = peer.rate(n)
				theirs = append(theirs, rate)
			}
		}
		product.pool.Close()
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

// product is C = A·B as a program of one instruction.
type product struct {
	n    int
	st   *program.Stage
	pool *program.Pool
	bind program.Binding
}

func newProduct(n int) *product {
	g := &graph.Graph{}
	a := g.NewNode(graph.Input, "a", graph.F32, n, n)
	w := g.NewNode(graph.Param, "b", graph.F32, n, n)
	f := program.Function{Graph: g, In: []*graph.Node{a}, Out: []*graph.Node{g.MatMul(a, w)}, Params: []*graph.Node{w}}
	p := &product{n: n, st: program.CompileEvaluate(f, 1), pool: program.NewPool(1)}
	for s := range program.Spaces {
		p.bind[s] = make([]float32, p.st.Span[s])
		for i := range p.bind[s] {
			p.bind[s][i] = float32(i%7) - 3
		}
	}
	return p
}

// rate runs for about a tenth of a second and returns GFLOP/s.
func (p *product) rate() float64 {
	once := func() { _ = p.st.Forward.Run(p.pool, &p.bind, &program.Env{}, program.Options{}) }
	once()
	start := time.Now()
	count := 0
	for time.Since(start) < 100*time.Millisecond {
		once()
		count++
	}
	return 2 * float64(p.n) * float64(p.n) * float64(p.n) * float64(count) / time.Since(start).Seconds() / 1e9
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
