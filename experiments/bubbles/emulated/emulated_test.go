package emulated

import (
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/simulate"
)

// A round of a tiny network: every schedule runs, its memory is the modelled one to the
// byte, and the modelled host knows every operation.
func TestRound(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty pipelines: minutes under the race detector, which runs short tests")
	}
	e := labtest.Loaded[*emulated](t, Definition.Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	repeated, _ := e.Repeated("smoke")
	peaks := map[string]int64{}
	for _, name := range repeated.Samples()[0] {
		var s Sample
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

// filled has records in which 1f1b is twice as fast as the others, and needs half of the
// memory; keeping everything is faster and needs five times as much.
func filled(t *testing.T, e *emulated, change func(name string, s *Sample)) *records.Log {
	t.Helper()
	log := records.New(e.Key("smoke"))
	repeated, err := e.Repeated("smoke")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range repeated.Samples()[0] {
		s := Sample{Compared: simulate.Compared{Seconds: 4, Rates: 4.2, Own: 3.2, Peak: []int64{50, 60}, HighWater: []int64{50, 60}, ModelledPeak: []int64{50, 60}}}
		if strings.Contains(name, "never") {
			s.Seconds, s.Peak = 3, []int64{300, 200}
		}
		if strings.HasPrefix(name, "1f1b") {
			s.Seconds, s.Peak = s.Seconds/2, []int64{s.Peak[0] / 2, s.Peak[1] / 2}
		}
		s.HighWater, s.ModelledPeak = s.Peak, s.Peak
		change(name, &s)
		if err := log.Add(name, 1, s); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// Within GPipe's memory each schedule has its fastest way that fits; what needs more has none.
func TestEqualMemory(t *testing.T) {
	e := labtest.Loaded[*emulated](t, Definition.Load)
	r, err := e.Report(filled(t, e, func(name string, s *Sample) {
		if strings.HasPrefix(name, "zb-h2") {
			s.Peak = []int64{301, 400}
			s.HighWater, s.ModelledPeak = s.Peak, s.Peak
		}
	}), nil)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	rows := map[string]string{}
	for _, row := range r.Tables[1].Printed() {
		rows[row[0]+", "+row[2]] = strings.Join(row[3:6], " ")
	}
	for row, want := range map[string]string{
		"GPipe, everything re-materialised, gpipe": "always 60 B 1.00",
		"GPipe, everything re-materialised, 1f1b":  "always 30 B 2.00",
		"GPipe, everything re-materialised, zb-h2": "- 400 B -",
		"GPipe, everything kept, gpipe":            "never 300 B 1.00",
		"GPipe, everything kept, 1f1b":             "never 150 B 2.00",
		"GPipe, everything kept, zb-v":             "never 300 B 1.00",
		"GPipe, everything kept, zb-h2":            "- 400 B -",
	} {
		if rows[row] != want {
			t.Errorf("%s: %q, want %q", row, rows[row], want)
		}
	}
	if note := r.Tables[0].Notes[0]; !strings.Contains(note, "by rates 8 of 18") {
		t.Error(note)
	}
}

// A byte too many, wherever it is, is a verdict and names the way.
func TestMemoryVerdict(t *testing.T) {
	e := labtest.Loaded[*emulated](t, Definition.Load)
	for what, change := range map[string]func(*Sample){
		"modelled": func(s *Sample) { s.ModelledPeak = []int64{51, 60} },
		"reached":  func(s *Sample) { s.HighWater = []int64{50, 61} },
	} {
		r, err := e.Report(filled(t, e, func(name string, s *Sample) {
			if strings.HasPrefix(name, "v-min/always") {
				change(s)
			}
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict == nil || !strings.Contains(r.Verdict.Error(), "v-min/always") {
			t.Errorf("%s: verdict %v", what, r.Verdict)
		}
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"schedules: [gpipe, 1f1b,", "schedules: [1f1b, gpipe,", "want gpipe first"},
		{"    batch: 8\n    m: 8", "    batch: 7\n    m: 8", "8 micro-batches of 7 examples"},
		{"    batch: 16\n    m: 8", "    batch: 16\n    m: 7", "want 8 or more"},
	})
}
