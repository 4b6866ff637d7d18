package gpipe

import (
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

func TestDelayedReduction(t *testing.T) {
	d := labtest.Loaded[*delayedReduction](t, Paper.Experiment("delayed-reduction").Load)
	log := records.New(d.Key("smoke"))
	if err := d.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := d.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r)
	}
	own, paper := r.Tables[0].Printed(), r.Tables[1].Printed()
	if len(own) != 2 || len(paper) != 2 || own[0][1] != own[1][1] || paper[0][1] != paper[1][1] {
		t.Fatalf("parameters differ: %v, %v", own, paper)
	}
	// "The activation memory footprint increased four times but the model size
	// stayed the same" (first version, section 5).
	if ratio := paper[1][3]; ratio < "3.8" || ratio > "4.2" || len(ratio) != 4 {
		t.Errorf("activations at the paper's scale: %s times, want about 4", ratio)
	}
	// Of images so small that roundings count.
	if ratio := own[1][3]; ratio < "2.5" || ratio > "4.2" {
		t.Errorf("activations: %s times", ratio)
	}
	labtest.CheckPlots(t, r)
	var m delayedFootprint
	if err := log.Get(delayedMemory, &m); err != nil {
		t.Fatal(err)
	}
	m.PaperParams[1]++
	if err := log.Add(delayedMemory, 1, &m); err != nil {
		t.Fatal(err)
	}
	if r, err = d.Report(log, nil); err != nil || r.Verdict == nil {
		t.Errorf("another number of parameters: %v", err)
	}
}
