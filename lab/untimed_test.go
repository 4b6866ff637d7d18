package lab_test

import (
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/machine"
	"gpipebench/internal/testkit"
)

// What is not timed goes on on another machine; what is timed does not.
func TestUntimedKeys(t *testing.T) {
	for _, d := range experiments.List() {
		e := testkit.Must(d.Load())(t)
		want := machine.This().Key()
		if d.Untimed {
			want = ""
		}
		testkit.Equal(t, e.Key("full").Machine, want, "%s: its key has the machine", d.ID)
	}
}
