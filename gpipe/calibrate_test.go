package gpipe

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Exact times give their terms back; one that is not there is none.
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
	// One size, or a time that would begin below 0: still the work that was timed.
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

// Times that no terms explain still add up to what was measured: what is short
// counts no more than what is long.
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

// An operation that was timed itself takes that long, whatever its kind's rate;
// others take what they did.
func TestShapesGoBeforeRates(t *testing.T) {
	p := small.pipeline(t)
	a := &Accelerator{Name: "host", F32: 1e11, Memory: 1 << 40, Bandwidth: 1e10, Lanes: 1, Packing: true}
	p.Devices = []Device{a.Device()}
	p.Partitions, p.MicroBatches = 1, 2
	n, err := p.modelled(InputOf(small.data(1)), Modelling{DType: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	prog := n.planned(MicroBatchSizes(small.batch, 2)[0])[0].Forward
	before := a.seconds(prog, graph.F32)
	shape, times := prog.Instrs[0].Shape(), 0
	var own float64
	for i := range prog.Instrs {
		if prog.Instrs[i].Shape() == shape {
			times++
			own += a.seconds(&program.Program{Instrs: prog.Instrs[i : i+1]}, graph.F32)
		}
	}
	a.Shapes = map[string]float64{shape: 3}
	if got, want := a.seconds(prog, graph.F32), before-own+3*float64(times); times == 0 || math.Abs(got-want) > 1e-9 {
		t.Errorf("%v s, want %v with %d times %s", got, want, times, shape)
	}
}

// What is calibrated is a file that is read again as it was.
func TestCalibrationIsAFile(t *testing.T) {
	c := &Calibration{}
	p := small.pipeline(t)
	p.Devices = []Device{{Kind: Emulated}}
	p.Partitions, p.MicroBatches = 2, 3
	tr, r := run(t, small, p)
	c.Updates(tr.Plans()[0], r.Times.Stages[0])
	tr.Watch(c.Watch)
	if _, err := tr.Step(t.Context(), small.data(1)); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, stages := range tr.net.planned(MicroBatchSizes(small.batch, 3)[0]) {
		want += len(stages.Forward.Instrs) + len(stages.Keep.Instrs) + len(stages.Backward.Instrs)
	}
	if len(c.instrs) < want {
		t.Errorf("%d instructions watched, the programs of the first micro-batch have %d", len(c.instrs), want)
	}
	c.Tasks([]*Times{r.Times})
	joined := &Calibration{}
	joined.Join(c)
	c = joined
	a := &Accelerator{Name: "host", Description: `a "machine"`, F32: 1e11, Memory: 1 << 30, Bandwidth: 1e10, Lanes: 16, Tiled: true, Packing: true, Sources: map[string]string{"flops": "measured"}}
	c.Fit(a)
	c.Shapes(a)
	if a.Ops["matmul"] == (OpRate{}) || a.Ops["layer-norm"] == (OpRate{}) || a.Ops["update"] == (OpRate{}) || a.Ops["clear"] == (OpRate{}) {
		t.Errorf("rates of %+v", a.Ops)
	}
	again, err := ReadAccelerator("host.yaml", []byte(a.Text()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, a.Text())
	}
	if diff := cmp.Diff(a, again, cmpopts.EquateApprox(1e-5, 0)); diff != "" {
		t.Errorf("read again (-want +got)\n%s", diff)
	}
	list, err := Accelerators()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		again, err := ReadAccelerator("again.yaml", []byte(a.Text()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&a, again); diff != "" {
			t.Errorf("%s (-want +got)\n%s", a.Name, diff)
		}
	}
}
