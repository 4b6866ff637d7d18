package gpipe

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// The base is 1, cutting by time helps stages whose FLOPs mislead, and nothing
// beats stages that are even.
func TestAblation(t *testing.T) {
	e := loaded(t, "ablation", ablation)
	e.Spec.K = []int{2, 4}
	e.Spec.Networks = []ablatedNetwork{{Name: "small", On: cells.On{Model: train.Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop"}, Micro: 4}}
	all := cellstest.Measured(t, e)
	r := cellstest.Report(t, e, func(_, sample string) cutSample { return all[sample] })
	if len(all) != 2 || len(r.Tables[0].Rows) != 2 {
		t.Errorf("%d samples, a table of %d rows", len(all), len(r.Tables[0].Rows))
	}
	labtest.CheckPlots(t, r)
	cuts := e.Spec.cuts()
	for name, s := range all {
		best := slices.Index(cuts, cells.CutSpec{Partitioner: "min-max", Cost: "time"})
		for i, c := range s.Cuts {
			if c.ByTime > s.Cuts[best].ByTime+1e-12 {
				t.Errorf("%s: %v is more even in time, %v, than min-max, %v", name, cuts[i], c.ByTime, s.Cuts[best].ByTime)
			}
			if s.Even > c.Step.Early {
				t.Errorf("%s: %v takes %v s, even stages %v", name, cuts[i], c.Step.Early, s.Even)
			}
		}
		testkit.Equal(t, len(s.Cuts), len(cuts), "%s", name)
	}
	if row := r.Tables[0].Printed()[0]; row[5] != "1.00" {
		t.Errorf("the base is %s", row[5])
	}
}
