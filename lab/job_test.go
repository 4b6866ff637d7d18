package lab

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// Of jobs with one sample one is done, and none whose sample the log has.
func TestMakeMissing(t *testing.T) {
	log := records.New(records.Key{Experiment: "x"})
	testkit.NoError(t, log.Add("there", 0, "earlier"))
	var made atomic.Int32
	job := func(sample string) Job {
		return Making(sample, 0, func(context.Context) (string, error) {
			made.Add(1)
			return sample, nil
		})
	}
	jobs := []Job{job("there"), job("a"), job("b"), job("a")}
	testkit.NoError(t, MakeMissing(t.Context(), "x", log, progress.Silent{}, jobs))
	if made.Load() != 2 || !log.Has("a") || !log.Has("b") {
		t.Errorf("%d made, a %v, b %v", made.Load(), log.Has("a"), log.Has("b"))
	}
	var was string
	if err := log.Get("there", &was); err != nil || was != "earlier" {
		t.Errorf("%q, %v", was, err)
	}

	bad := Making("c", 0, func(context.Context) (string, error) { return "", errors.New("no such thing") })
	if err := MakeMissing(t.Context(), "x", log, progress.Silent{}, []Job{bad}); err == nil || err.Error() != "x, c: no such thing" || log.Has("c") {
		t.Errorf("%v", err)
	}
}
