package bubbles

import (
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/simulate"
)

// A round of a tiny network: every schedule runs, its memory is the modelled one to the
// byte, and the modelled host knows every operation.
func TestEmulatedRound(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty pipelines: minutes under the race detector, which runs short tests")
	}
	e := labtest.Loaded[*bubblesEmulated](t, Paper.Experiment("bubbles-emulated").Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	repeated, _ := e.Repeated("smoke")
	peaks := map[string]int64{}
	for _, name := range repeated.Samples()[0] {
		var s timed.ModelledStep
		if err := log.Get(name, &s); err != nil {
			t.Fatal(err)
		}
		if !s.SameMemory() || len(s.Peak) != e.Spec.K || !(s.Seconds > 0 && s.Rates > 0 && s.Own > 0) || s.Rates == s.Own {
			t.Errorf("%s: %+v", name, s)
		}
		for _, p := range s.Peak {
			peaks[name] = max(peaks[name], p)
		}
	}
	if !(peaks["1f1b/never/round=0"] < peaks["gpipe/never/round=0"]) {
		t.Errorf("1f1b holds as much as gpipe: %v", peaks)
	}
	r, err := e.Report(log, nil)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	labtest.CheckPlots(t, &lab.Report{Files: r.Files[:1]})
}

// emulatedSteps has records in which 1f1b is twice as fast as the others, and needs half of the
// memory; keeping everything is faster and needs five times as much.
func emulatedSteps(t *testing.T, e *bubblesEmulated, change func(w emulatedWay, s *timed.ModelledStep)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, e, "smoke", func(w emulatedWay, _ int) *timed.ModelledStep {
		s := &timed.ModelledStep{Compared: simulate.Compared{Seconds: 4, Rates: 4.2, Own: 3.2, Peak: []int64{50, 60}}}
		if w.checkpoint == "never" {
			s.Seconds, s.Peak = 3, []int64{300, 200}
		}
		if w.schedule == "1f1b" {
			s.Seconds, s.Peak = s.Seconds/2, []int64{s.Peak[0] / 2, s.Peak[1] / 2}
		}
		s.HighWater, s.ModelledPeak = s.Peak, s.Peak
		change(w, s)
		return s
	})
}

// A note counts the ways that the model meets.
func TestEmulatedNote(t *testing.T) {
	e := labtest.Loaded[*bubblesEmulated](t, Paper.Experiment("bubbles-emulated").Load)
	r, err := e.Report(emulatedSteps(t, e, func(emulatedWay, *timed.ModelledStep) {}), nil)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	if note := r.Tables[0].Notes[0]; !strings.Contains(note, "by rates 8 of 18") {
		t.Error(note)
	}
}

// A byte too many, wherever it is, is a verdict and names the way.
func TestMemoryVerdict(t *testing.T) {
	e := labtest.Loaded[*bubblesEmulated](t, Paper.Experiment("bubbles-emulated").Load)
	for what, change := range map[string]func(*timed.ModelledStep){
		"modelled [51 60]": func(s *timed.ModelledStep) { s.ModelledPeak = []int64{51, 60} },
		"modelled [50 60], planned [50 60], reached [50 61]": func(s *timed.ModelledStep) { s.HighWater = []int64{50, 61} },
	} {
		timedtest.CheckVerdict(t, e, emulatedSteps(t, e, func(w emulatedWay, s *timed.ModelledStep) {
			if w == (emulatedWay{"v-min", "always"}) {
				change(s)
			}
		}), "v-min/always: memory "+what)
	}
}

func TestEmulatedSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bubbles-emulated"), [][3]string{
		{"schedules: [gpipe, 1f1b,", "schedules: [1f1b, gpipe,", "want gpipe first"},
		{"    batch: 8\n    m: 8", "    batch: 7\n    m: 8", "8 micro-batches of 7 examples"},
		{"    batch: 16\n    m: 8", "    batch: 16\n    m: 7", "want 8 or more"},
	})
}
