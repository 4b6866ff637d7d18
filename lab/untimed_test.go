package lab_test

import (
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/machine"
)

// What is not timed goes on on another machine with the same kernels; what is timed does not.
func TestUntimedKeys(t *testing.T) {
	here := machine.This()
	for _, d := range experiments.List() {
		e, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		if got, bits := e.Key("full").Machine, here.Bits().Key(); (got == bits) != d.Untimed {
			t.Errorf("%s: key %s of this machine, %s of its bits, untimed: %v", d.ID, got, bits, d.Untimed)
		}
	}
	there := here
	there.CPU, there.Cores, there.GOMAXPROCS = "another", 64, 3
	if here.Bits() != there.Bits() || here.Key() == there.Key() {
		t.Errorf("%v and %v", here.Bits(), there.Bits())
	}
}
