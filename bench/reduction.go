package main

import (
	"context"
	"sync"
	"time"

	"gpipebench/bench/rows"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
)

// width makes a layer whose weights and biases are 138 MB.
const width = 5873

// reduction compares the sums of two replicas' gradients, which each of them then has,
// with the least that must be done for it: two cores add one buffer to the other, each a
// half, and copy the sums back. The network computes almost nothing else.
func (b *bench) reduction() error {
	const floats = width * (width + 1)
	batch := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{2, width}, F32: make([]float32, 2*width)}},
		Targets: []nn.Tensor{{Shape: []int{2}, I32: make([]int32, 2)}},
		Count:   2,
	}
	t, err := gpipe.Pipeline{
		Layers: []nn.Layer{nn.NewDense("wide", nn.DenseConfig{In: width, Out: width})}, Loss: nn.CrossEntropy{}, Replication: gpipe.Replication{Replicas: 2},
	}.Open(gpipe.InputOf(batch))
	if err != nil {
		return err
	}
	defer t.Close()
	x, y := make([]float32, floats), make([]float32, floats)
	var ours, plain []float64 // GB/s
	for round := range b.rounds + 1 {
		r, err := t.Step(context.Background(), batch)
		if err != nil {
			return err
		}
		start := time.Now()
		addAndCopy(x, y)
		if took := time.Since(start).Seconds(); round > 0 { // the first round warms up
			ours, plain = append(ours, 4e-9*floats/reduceSeconds(r.Timeline)), append(plain, 4e-9*floats/took)
		}
	}
	s := &rows.Sample{What: "138 MB"}
	s.Add("ours", "GB/s", ours...)
	s.Add("addition and copy", "GB/s", plain...)
	s.Add("ratio", "", ratios(ours, plain)...)
	return b.add(s)
}

// reduceSeconds is how long replicas add up gradients, from when the last of them is
// ready.
func reduceSeconds(tl *timeline.Timeline) float64 {
	var start, end float64
	for _, e := range tl.Events {
		if e.Kind == timeline.Reduce {
			start, end = max(start, e.Start), max(end, e.End)
		}
	}
	return end - start
}

// addAndCopy makes both buffers their sum, on two cores.
func addAndCopy(x, y []float32) {
	var both sync.WaitGroup
	for part := range 2 {
		from, to := len(x)*part/2, len(x)*(part+1)/2
		both.Go(func() {
			kernel.Add(x[from:to], x[from:to], y[from:to])
			copy(y[from:to], x[from:to])
		})
	}
	both.Wait()
}
