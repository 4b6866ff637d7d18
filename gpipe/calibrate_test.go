package gpipe

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	a := &Accelerator{Name: "host", Description: `a "machine"`, F32: 1e11, Memory: 1 << 30, Bandwidth: 1e10, Lanes: 1, Packing: true, Sources: map[string]string{"flops": "measured"}}
	c.Fit(a)
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
