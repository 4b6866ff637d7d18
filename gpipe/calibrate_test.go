package gpipe

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A line through exact points is found; one that would begin below 0 goes
// through 0.
func TestFitLine(t *testing.T) {
	var s []workTime
	for _, work := range []float64{1e3, 1e4, 1e6} {
		s = append(s, workTime{work, 2e-6 + work/1e9})
	}
	if rate, overhead := fitLine(s); math.Abs(rate-1e9) > 1 || math.Abs(overhead-2e-6) > 1e-12 {
		t.Errorf("rate %v, overhead %v, want 1e9 and 2e-6", rate, overhead)
	}
	if rate, overhead := fitLine([]workTime{{100, 1}, {1000, 20}}); overhead != 0 || rate < 50 || rate > 100 {
		t.Errorf("a convex cost: rate %v, overhead %v, want none and one between", rate, overhead)
	}
	if rate, overhead := fitLine([]workTime{{100, 1}, {100, 1}}); overhead != 0 || math.Abs(rate-100) > 1e-9 {
		t.Errorf("one size: rate %v, overhead %v", rate, overhead)
	}
}

// What is calibrated is a file that is read again as it was.
func TestCalibrationIsAFile(t *testing.T) {
	c := &Calibration{}
	p := small.pipeline(t)
	p.Devices = []Device{{Kind: Emulated}}
	p.Watch = c.Watch
	tr, r := run(t, small, p)
	c.Updates(tr.Plans()[0], r.Times.Stages[0])
	a := &Accelerator{Name: "host", Description: `a "machine"`, F32: 1e11, Memory: 1 << 30, Bandwidth: 1e10, Lanes: 1, Packing: true, Sources: map[string]string{"flops": "measured"}}
	c.Fit(a)
	if a.Ops["matmul"].FLOPs == 0 || a.Ops["layer-norm"].Bandwidth == 0 || a.Ops["update"].Bandwidth == 0 || a.Ops["clear"].Bandwidth == 0 {
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
