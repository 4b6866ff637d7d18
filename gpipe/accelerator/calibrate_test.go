package accelerator

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
)

// Exact times give their terms back, and 0 for a term that they do not have.
func TestFitRate(t *testing.T) {
	close := func(a, b float64) bool { return math.Abs(a-b) <= 2e-3*math.Abs(b) }
	for _, want := range []OpRate{
		{FLOPs: 1e11, Bandwidth: 1e10, Overhead: 2e-6},
		{FLOPs: 1e11, Bandwidth: 1e10},
		{FLOPs: 1e11, Overhead: 1e-6},
		{Bandwidth: 3e10, Overhead: 1e-7},
		{Bandwidth: 3e10},
		{FLOPs: 1e11, Weights: 1e10, Overhead: 2e-6},
		{FLOPs: 1e11, Bandwidth: 3e10, Weights: 1e10},
	} {
		var s []workTime
		for i, flops := range []float64{1e4, 1e5, 1e6, 1e7, 1e8} {
			w := workTime{bytes: []float64{1e6, 1e3, 1e5, 1e4, 1e7}[i], seconds: want.Overhead}
			if want.FLOPs > 0 {
				w.flops = flops
				w.seconds += flops / want.FLOPs
			}
			if want.Bandwidth > 0 {
				w.seconds += w.bytes / want.Bandwidth
			}
			if want.Weights > 0 {
				w.weights = []float64{1e5, 1e4, 1e3, 1e6, 1e2}[i]
				w.seconds += w.weights / want.Weights
			}
			s = append(s, w)
		}
		if got := fitRate(s); !close(got.FLOPs, want.FLOPs) || !close(got.Bandwidth, want.Bandwidth) || !close(got.Weights, want.Weights) || !close(got.Overhead, want.Overhead) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	// With a single size, or with times whose line would begin below 0, the fit still
	// gives the measured time.
	for _, s := range [][]workTime{{{bytes: 100, seconds: 1}, {bytes: 100, seconds: 1}}, {{bytes: 100, seconds: 1}, {bytes: 1000, seconds: 12}}} {
		r := fitRate(s)
		got := r.Overhead
		if r.Bandwidth > 0 {
			got += 100 / r.Bandwidth
		}
		if got < 0.5 || got > 1.5 || r.Overhead < 0 {
			t.Errorf("%v: %+v", s, r)
		}
	}
}

// Times that no terms explain still add up to what was measured: a short time counts
// no more than a long one.
func TestFitAddsUp(t *testing.T) {
	var s []workTime
	var measured, fitted float64
	for i := range 60 {
		bytes := math.Pow(2, float64(i%15))
		s = append(s, workTime{bytes: bytes, seconds: bytes * []float64{1, 1, 1, 9}[i%4]})
	}
	rate := fitRate(s)
	for _, w := range s {
		measured += w.seconds
		fitted += rate.Overhead
		if rate.Bandwidth > 0 {
			fitted += w.bytes / rate.Bandwidth
		}
	}
	if math.Abs(fitted/measured-1) > 0.01 {
		t.Errorf("fitted %v, measured %v, by %+v", fitted, measured, rate)
	}
}

// An accelerator that Text writes is read back unchanged.
func TestTextIsAFile(t *testing.T) {
	list := testkit.Must(All())(t)
	for _, a := range list {
		again := testkit.Must(Read("again.yaml", []byte(a.Text())))(t)
		testkit.Equal(t, cmp.Diff(&a, again), "", "%s (-want +got)", a.Name)
	}
}
