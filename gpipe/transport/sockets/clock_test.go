package sockets

import (
	"testing"
	"testing/synctest"
	"time"
)

// The offset of two clocks is found to half a round trip.
func TestClock(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms float64) time.Time { return start.Add(time.Duration(ms * 1e6)) }
	ahead := 250 * time.Millisecond
	var c clock
	for _, trip := range [][3]float64{{0, 9, 10}, {20, 21, 22}, {30, 30.5, 36}} { // sent, answered, back
		c.add(at(trip[0]), at(trip[1]).Add(ahead), at(trip[2]))
	}
	offset, within := c.read(at(22))
	if offset != ahead || within != time.Millisecond {
		t.Errorf("%v within %v, want %v within 1ms", offset, within, ahead)
	}
	if _, within := c.read(at(22 + 10000)); within != 1500*time.Microsecond {
		t.Errorf("after ten seconds within %v, want 1.5ms", within)
	}
	c.add(at(20000), at(20001.2).Add(ahead), at(20002)) // better than what is old
	if offset, within := c.read(at(20002)); offset != ahead+200*time.Microsecond || within != time.Millisecond {
		t.Errorf("%v within %v", offset, within)
	}
	synctest.Test(t, func(t *testing.T) { // in which all have one clock, and trips take no time
		ends := newMemory().met(t, 2)
		time.Sleep(1200 * time.Millisecond) // the last trip was made at a second
		for rank, e := range ends {
			offset, within := e.Clock()
			if offset != 0 || within != []time.Duration{0, 10 * time.Microsecond}[rank] {
				t.Errorf("rank %d: %v within %v of its own clock", rank, offset, within)
			}
		}
		closeAll(ends)
	})
}
