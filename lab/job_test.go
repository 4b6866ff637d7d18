package lab

import (
	"context"
	"errors"
	"fmt"
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
	testkit.NoError(t, log.Get("there", &was))
	testkit.Equal(t, was, "earlier")

	bad := Making("c", 0, func(context.Context) (string, error) { return "", errors.New("no such thing") })
	err := MakeMissing(t.Context(), "x", log, progress.Silent{}, []Job{bad})
	testkit.Equal(t, fmt.Sprint(err), "x, c: no such thing")
	testkit.Equal(t, log.Has("c"), false, "a sample of a job that fails")
}
