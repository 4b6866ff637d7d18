package mlperf

import (
	"math"
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/nn/program"
)

// Instructions whose times are a linear function of their arithmetic and traffic give a model that
// is right for other sizes: measured factors that are what the functions say are within.
func TestHoistingReport(t *testing.T) {
	h := labtest.Loaded[*hoisting](t, Paper.Experiment("hoisting").Load)
	p := h.Spec.Profiles["quick"]
	seconds := func(in *program.Instr) float64 {
		s := 1e-6 + 1e-9*float64(in.Cost.FLOPs)
		for move := range in.Moves() {
			s += 1e-10 * float64(move.Elems*move.ElemBytes)
		}
		return s
	}
	whole := func(l recurrentLayer) (sum float64, each []float64) {
		for _, in := range layerInstructions(l.compile(program.Storage{})) {
			each = append(each, seconds(in))
			sum += seconds(in)
		}
		return sum, each
	}
	r := timedtest.Reported(t, h, timedtest.Filled(t, h, "quick", func(l recurrentLayer, _ int) *layerTimes {
		s, each := whole(l)
		if l.Width != p.Measured.Width {
			return &layerTimes{Seconds: s, Instrs: each}
		}
		if l.Inside && l.Batch == h.Spec.Batches[0] {
			s *= 1.5 // the first factor is half as large again
		}
		return &layerTimes{Seconds: s}
	}))
	table := r.Tables[0]
	for i, b := range h.Spec.Batches {
		of := func(column string) lab.Value { return table.Rows[i][table.Column(column)] }
		pair := p.Measured.in(b)
		hoisted, _ := whole(pair[0])
		inside, _ := whole(pair[1])
		want, within := 1.0, "yes"
		if i == 0 {
			want, within = 1.5, "no"
		}
		labtest.CheckCells(t, table, table.Rows[i], map[string]float64{"hoisted": hoisted, "measured inside / hoisted": want * inside / hoisted, "inside / hoisted, reference": want * inside / hoisted})
		// Padded products of small batches and overheads leave a few percent.
		if got := of("measured / modelled").Numbers[0]; math.Abs(got/want-1) > 0.05 || of("within").Text != within {
			t.Errorf("batch %d: measured over modelled %v, within %v, want %v", b, got, of("within"), want)
		}
		if pod := of("tpuv3 inside / hoisted").Numbers[0]; !(pod > 1) {
			t.Errorf("batch %d: %v on the modelled core", b, pod)
		}
	}
}

// A round has all samples, those of the calibration with a time for each instruction.
func TestHoistingMeasures(t *testing.T) {
	h := labtest.Loaded[*hoisting](t, Paper.Experiment("hoisting").Load)
	log := records.New(h.Key("smoke"))
	labtest.MeasureTwice(t, h, log)
	p := h.Spec.Profiles["smoke"]
	if n := len(h.Runs(p)); len(log.Names) != n {
		t.Errorf("%d samples, want %d", len(log.Names), n)
	}
	if _, err := h.Report(log, nil); err != nil {
		t.Error(err)
	}
	// A sample of another program is strange.
	l := p.calibrated()[0]
	other := records.New(h.Key("smoke"))
	for _, name := range log.Names {
		var s layerTimes
		if err := log.Get(name, &s); err != nil {
			t.Fatal(err)
		}
		if name == h.Sample(l, 0) {
			s.Instrs = s.Instrs[1:]
		}
		if err := other.Add(name, 1, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Report(other, nil); err == nil || !strings.Contains(err.Error(), "instructions") {
		t.Errorf("times of fewer instructions: %v", err)
	}
}

func TestHoistingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("hoisting"), [][3]string{
		{"batches: [1, 2, 4, 8, 16, 32]", "batches: [2, 1]", "ascending"},
		{"calibrated: [{width: 32,", "calibrated: [{width: 48,", "want another width"},
		{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
		{"turns: 1", "turns: 0", "want a whole number from 1"},
	})
	h := labtest.Loaded[*hoisting](t, Paper.Experiment("hoisting").Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		h.Spec.Accelerator = file
		return h
	})
}
