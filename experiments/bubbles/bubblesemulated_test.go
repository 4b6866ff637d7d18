package bubbles

import (
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// A round of a tiny network: every schedule runs, its memory is the modelled one to the
// byte, and the modelled host knows every operation.
func TestEmulatedRound(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty pipelines: minutes under the race detector, which runs short tests")
	}
	e := labtest.Loaded[*bubblesEmulated](t, Paper.Experiment("bubbles-emulated").Load)
	log := records.New(e.Key("smoke"))
	testkit.NoError(t, e.Measure(t.Context(), log, progress.Silent{}))
	repeated, _ := e.Repeated("smoke")
	peaks := map[string]int64{}
	for _, name := range repeated.Samples()[0] {
		var s timed.ModelledStep
		testkit.NoError(t, log.Get(name, &s))
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
	r := labtest.Reported(t, e, log)
	labtest.CheckPlots(t, &lab.Report{Files: r.Files[:1]})
}

// A byte too many, wherever it is, is a verdict and names the way.
func TestMemoryVerdict(t *testing.T) {
	e := labtest.Loaded[*bubblesEmulated](t, Paper.Experiment("bubbles-emulated").Load)
	for _, change := range []func(*timed.ModelledStep){
		func(s *timed.ModelledStep) { s.ModelledPeak[0]++ },
		func(s *timed.ModelledStep) { s.HighWater[1]++ },
	} {
		labtest.CheckVerdict(t, e, e.Sample(emulatedWay{"v-min", "always"}, 1), change, "v-min/always: memory modelled [")
	}
}

func TestEmulatedSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bubbles-emulated"), [][3]string{
		{"schedules: [gpipe, 1f1b,", "schedules: [1f1b, gpipe,", "want gpipe first"},
	})
}
