package experiments

import (
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/nn"
)

type silent struct{}

func (silent) Begin(string, int) {}
func (silent) Advance(string)    {}
func (silent) End()              {}
func (silent) Say(string)        {}

// tinyProbes are networks of each kind, too small to calibrate with.
var tinyProbes = []calibrationProbe{
	{Model{Name: languageModel, Layers: 2, Dim: 16, FF: 32, Heads: 2, Vocab: 20, Seq: 8, Tied: "softmax"}, 4, 2, 2},
	{Model{Name: amoebaNet, Layers: 3, Filters: 16, Image: 48, Classes: 10}, 5, 2, 3},
	{Model{Name: "resnet50", Width: 8, Image: 32, Classes: 10}, 4, 2, 2},
}

// A host is calibrated by every kind of operation that the probes have, and
// models them: the memory is that of the emulated run, to the byte.
func TestCalibratedHostHasTheMemory(t *testing.T) {
	c := Calibrating{Name: "host", Optimizer: "adam", Threads: 1, Seed: 1}
	calibration := &gpipe.Calibration{}
	for _, probe := range tinyProbes {
		if err := c.probe(t.Context(), probe, nn.Adam{}, calibration, silent{}); err != nil {
			t.Fatal(err)
		}
	}
	host := &gpipe.Accelerator{Name: "host", F32: 1e10, Memory: 1 << 40, Bandwidth: 1e10, Lanes: 1, Packing: true}
	calibration.Fit(host)
	for _, op := range []string{"matmul", "attention", "conv2d", "conv2d-weight-grad", "batch-norm-moments", "max-pool", "update", "clear"} {
		if _, ok := host.Ops[op]; !ok {
			t.Errorf("nothing of %s in %v", op, host.Ops)
		}
	}
	v := Validating{Calibrating: c, Steps: 1}
	all := &Validation{}
	for _, run := range tinyProbes {
		row, err := v.row(t.Context(), run, host)
		if err != nil {
			t.Fatal(err)
		}
		if !row.SameMemory() || len(row.ModelledPeak) != run.k {
			t.Errorf("%s: modelled %v, planned %v, reached %v", run.model.Name, row.ModelledPeak, row.EmulatedPeak, row.HighWater)
		}
		if !(row.ModelledSeconds > 0) {
			t.Errorf("%s: modelled in %v s", run.model.Name, row.ModelledSeconds)
		}
		all.Rows = append(all.Rows, *row)
	}
	all.Rows[0].ModelledPeak[0]++
	var b strings.Builder
	if err := all.Table().Write(&b, "text"); err != nil || !strings.Contains(b.String(), "equal") || !strings.Contains(b.String(), "planned [") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
