// Package cellstest has small accelerators and networks for tests, and reports of given samples.
package cellstest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// SmallAccelerator writes the file of an accelerator with a memory of kib KiB.
func SmallAccelerator(t *testing.T, kib int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "small.yaml")
	text := fmt.Sprintf("name: small\nflops: {f32: 1e9}\nmemory: %dKiB\nbandwidth: 1e9\noverhead: 1e-6\nlink: {bandwidth: 1e8, through_host: true}\n", kib)
	testkit.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

var SmallLM = train.Model{Name: "transformer-lm", Layers: 4, Dim: 32, FF: 64, Heads: 2, Vocab: 50, Seq: 8}

// SmallScale is a table of one network that is modelled in no time.
func SmallScale(t *testing.T) *cells.Scale {
	s := &cells.Scale{
		Grid: lab.Grid{K: []int{2, 3}, M: []int{1, 4}, Base: lab.Cell{K: 2, M: 1}},
		Conventions: cells.ConventionsSpec{
			Cuts:   []cells.CutSpec{{Partitioner: "min-variance", Cost: "flops"}, {Partitioner: "min-max", Cost: "time"}, {Partitioner: "block", Cost: "memory"}},
			Splits: []string{"coarse", "fine"}, Recompute: []string{"early", "late"}, Batches: []string{"filled", "shrunk", "fixed"}, Most: 48,
		},
	}
	n := &cells.Network{ID: "small", Name: "Small", On: cells.On{Model: SmallLM, Accelerator: SmallAccelerator(t, 400), DType: "f32", Optimizer: "adam"}, Batch: 16, Splits: []string{"coarse", "fine"}, Reach: 10}
	for i, c := range s.Cells() {
		n.Paper = append(n.Paper, lab.PaperCell{Cell: c, Value: lab.Verbatim(fmt.Sprint(i + 1))})
	}
	s.Networks = []*cells.Network{n}
	if p := s.Check(); p != nil {
		t.Fatal(p.Path, p.Err)
	}
	return s
}

// Report is an experiment's report of samples at quick that of makes, by what their values
// begin with and their names. It also checks that there is none while samples lack.
func Report[S, V any](t *testing.T, e *cells.Experiment[S, V], of func(as, sample string) V) *lab.Report {
	t.Helper()
	log := records.New(e.Key("quick"))
	labtest.CheckLacking(t, e, log)
	rows := testkit.Must(e.Rows("quick"))(t)
	for _, r := range rows {
		for _, c := range r.Reads {
			if log.Has(c.Sample) {
				continue
			}
			testkit.NoError(t, log.Add(c.Sample, 0, of(c.As, c.Sample)))
		}
	}
	return testkit.Must(e.Report(log, nil))(t)
}

// Measured are an experiment's samples, by name.
func Measured[S, V any](t *testing.T, e *cells.Experiment[S, V]) map[string]V {
	t.Helper()
	log := records.New(records.Key{Profile: "quick"})
	labtest.MeasureTwice(t, e, log)
	all := map[string]V{}
	for _, name := range log.Names {
		var v V
		testkit.NoError(t, log.Get(name, &v))
		all[name] = v
	}
	return all
}
