package lab

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/records"
)

// Of jobs with one sample one is done, and none whose sample the log has.
func TestMakeMissing(t *testing.T) {
	log := records.New(records.Key{})
	if err := log.Add("there", 0, "earlier"); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	job := func(sample string) Job {
		return Job{Sample: sample, Make: func(context.Context) (any, string, error) {
			made.Add(1)
			return sample, sample, nil
		}}
	}
	jobs := []Job{job("there"), job("a"), job("b"), job("a")}
	if err := MakeMissing(t.Context(), "x", log, progress.Silent{}, jobs); err != nil {
		t.Fatal(err)
	}
	if made.Load() != 2 || !log.Has("a") || !log.Has("b") {
		t.Errorf("%d made, a %v, b %v", made.Load(), log.Has("a"), log.Has("b"))
	}
	var was string
	if err := log.Get("there", &was); err != nil || was != "earlier" {
		t.Errorf("%q, %v", was, err)
	}

	bad := Job{Sample: "c", Make: func(context.Context) (any, string, error) { return nil, "", errors.New("no such thing") }}
	if err := MakeMissing(t.Context(), "x", log, progress.Silent{}, []Job{bad}); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("%v", err)
	}
}
