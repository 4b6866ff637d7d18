package timedtest

import (
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// Compared is an experiment that embeds timed.Compared.
type Compared[V any] interface {
	lab.Experiment
	Sampled(profile string) (runs []V, rounds int, err error)
	Sample(run V, round int) string
}

// Filled is a log that has the records of all runs and rounds; one that is nil is left out.
func Filled[V, R any](t *testing.T, e Compared[V], profile string, of func(run V, round int) *R) *records.Log {
	t.Helper()
	log := records.New(e.Key(profile))
	runs, rounds, err := e.Sampled(profile)
	if err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		for _, run := range runs {
			if r := of(run, round); r != nil {
				if err := log.Add(e.Sample(run, round), 1, r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return log
}

// Reported is a report of a log, which is its own reference, with a figure and without a
// verdict. There must be no report of a log that lacks samples.
func Reported(t *testing.T, e lab.Experiment, log *records.Log) *lab.Report {
	t.Helper()
	labtest.CheckLacking(t, e, records.New(log.Key))
	r, err := e.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	labtest.CheckPlots(t, &lab.Report{Files: r.Files[:1]})
	return r
}

// CheckVerdict checks the verdict on a log.
func CheckVerdict(t *testing.T, e lab.Experiment, log *records.Log, says string) {
	t.Helper()
	r, err := e.Report(log, nil)
	if err != nil || r.Verdict == nil || !strings.Contains(r.Verdict.Error(), says) {
		t.Errorf("%v, verdict %v, want %s", err, r.Verdict, says)
	}
}

// CheckRecords checks what is said of records, by what must be in it.
func CheckRecords[R interface{ Check() error }](t *testing.T, bad map[string]R) {
	t.Helper()
	for says, r := range bad {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
