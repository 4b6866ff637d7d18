package summation

import (
	"testing"

	"gpipebench/gpipe/reduction"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// The largest torus, worked out by hand: 25,557,032 gradients in float32, over links of
// 82 GB/s and a memory of 450 GB/s.
func TestReport(t *testing.T) {
	s := labtest.Loaded[*summation](t, Definition.Load)
	log := records.New(s.Key("quick"))
	labtest.CheckLacking(t, s, log)
	labtest.MeasureTwice(t, s, log)
	if len(log.Names) != len(s.Spec.Sides) {
		t.Errorf("samples %v", log.Names)
	}
	r, err := s.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	row := table.Rows[len(table.Rows)-1]
	const bytes, latency = 4 * 25_557_032.0, 1e-6
	ring := 2 * (1023./1024*bytes/82e9 + 1023*latency)
	torus := 2 * (31./32*bytes/82e9 + 31*latency + 31./32*bytes/32/82e9 + 31*latency)
	tree := 2 * (1023./1024*bytes/82e9 + 10*latency)
	copied := 2 * bytes / 450e9
	labtest.CheckCells(t, table, row, map[string]float64{
		"cores": 1024, "ring": ring, "tree": tree, "2d": torus, "ring / 2d": ring / torus, "gathered first": torus + 2*copied,
		"pipelined": torus, "speedup": (torus + 2*copied) / torus, "speedup, with overheads": (torus + 2*copied + 2*161*2e-6) / torus, "paper, more than": 1.5,
	})
	if table.Rows[0][table.Column("paper, more than")].Text != lab.Absent.Text {
		t.Error("the paper's figure is on another torus too")
	}
}

// Where the copy takes longer than the sum, pipelined is as long as the copies.
func TestPipelined(t *testing.T) {
	s := sample{Sums: map[string][2]float64{"2d": {1, 2}}, Copy: 1.5, Overheads: 0.25}
	if got := s.pipelined(reduction.Torus); got != 3.5 {
		t.Errorf("pipelined %v, want 1.5 and 2", got)
	}
	if got := s.first(reduction.Torus, true); got != 3+3+0.5 {
		t.Errorf("gathered first %v", got)
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"sides: [2, 4,", "sides: [4, 2,", "in ascending order"},
		{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
	})
	s := labtest.Loaded[*summation](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		s.Spec.Accelerator = file
		return s
	})
}
