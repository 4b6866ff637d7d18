package ablation

import (
	"slices"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// The base is 1, cutting by time helps stages whose FLOPs mislead, and nothing
// beats stages that are even.
func TestAblation(t *testing.T) {
	loaded, err := Definition.Load()
	if err != nil {
		t.Fatal(err)
	}
	e := loaded.(*ablation)
	e.Spec.K = []int{2, 4}
	e.Spec.Networks = []*network{{Name: "small", Model: train.Model{Name: "resnet50", Width: 8, Image: 64, Classes: 10}, Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Micro: 4}}
	log := records.New(records.Key{})
	labtest.MeasureTwice(t, e, log)
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	cuts := len(e.cuts())
	if len(log.Names) != 2 || len(r.Tables[0].Rows) != 2 || len(r.Tables[1].Rows) != 2*cuts || len(r.Files) != 2 {
		t.Errorf("%d samples, tables of %d and %d rows, %d files", len(log.Names), len(r.Tables[0].Rows), len(r.Tables[1].Rows), len(r.Files))
	}
	for _, name := range log.Names {
		var s sample
		if err := log.Get(name, &s); err != nil {
			t.Fatal(err)
		}
		best := slices.Index(e.cuts(), cells.CutSpec{Partitioner: "min-max", Cost: "time"})
		for i, c := range s.Cuts {
			if c.ByTime > s.Cuts[best].ByTime+1e-12 {
				t.Errorf("%s: %v is more even in time, %v, than min-max, %v", name, e.cuts()[i], c.ByTime, s.Cuts[best].ByTime)
			}
			if s.Even > c.Step.Early {
				t.Errorf("%s: %v takes %v s, even stages %v", name, e.cuts()[i], c.Step.Early, s.Even)
			}
		}
	}
	if row := r.Tables[0].Printed()[0]; row[5] != "1.00" {
		t.Errorf("the base is %s", row[5])
	}
}

func TestKey(t *testing.T) {
	labtest.CheckKey(t, func(file string) lab.Experiment {
		e, err := Definition.Load(lab.SpecFile{Name: "x.yaml", Text: labtest.Edited(t, Definition, "accelerator: tpuv3", "accelerator: "+file)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}
