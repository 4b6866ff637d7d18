package lab_test

import (
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/machine"
)

// What is not timed goes on on another machine; what is timed does not.
func TestUntimedKeys(t *testing.T) {
	for _, d := range experiments.List() {
		e, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		want := machine.This().Key()
		if d.Untimed {
			want = ""
		}
		if got := e.Key("full").Machine; got != want {
			t.Errorf("%s: its key has the machine %q, want %q", d.ID, got, want)
		}
	}
}
