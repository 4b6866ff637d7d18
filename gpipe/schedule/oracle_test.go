package schedule

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// exhaustive goes through all schedules of a Wanted. Tasks begin in the order in which they are
// taken, so that each schedule is met once, and states that were met before are left.
type exhaustive struct {
	Wanted
	chunks     [][]int
	begun      [][3]int       // F, I and W of each stage
	ends       [][2][]float64 // of each stage's F and I
	start, end []float64      // of each device
	used       []float64
	begins     float64 // the last task
	of         int     // its device
	least      float64
	met        map[string]bool
}

// shortest is the shortest span of all schedules within the limit, infinite if there is none.
func shortest(w Wanted) float64 {
	e := &exhaustive{
		Wanted: w, chunks: w.Place.Chunks(), begun: make([][3]int, w.Place.Stages()), ends: make([][2][]float64, w.Place.Stages()),
		start: slices.Repeat([]float64{math.NaN()}, w.Place.Devices), end: make([]float64, w.Place.Devices), used: make([]float64, w.Place.Devices),
		least: math.Inf(1), met: map[string]bool{},
	}
	e.explore()
	return e.least
}

// ready is when the next task of a kind of a stage may begin; false: not yet.
func (e *exhaustive) ready(stage, kind int) (float64, bool) {
	n, from, of := e.begun[stage][kind], stage, 0
	switch {
	case n == e.Micro || kind > 0 && n == e.begun[stage][kind-1]:
		return 0, false
	case kind == 2 || kind == 0 && stage == 0:
		return 0, true
	case kind == 0:
		from--
	case stage < len(e.begun)-1:
		from, of = stage+1, 1
	}
	if n >= len(e.ends[from][of]) {
		return 0, false
	}
	at := e.ends[from][of][n]
	if e.Place.Device[from] != e.Place.Device[stage] {
		at += e.Times.Comm
	}
	return at, true
}

func (e *exhaustive) explore() {
	span, done := 0.0, true
	for d, stages := range e.chunks {
		left := 0.0
		for _, s := range stages {
			of := e.Times.Of(s)
			for kind, seconds := range [3]float64{of.F, of.I, of.W} {
				left += float64(e.Micro-e.begun[s][kind]) * seconds
			}
		}
		done = done && left == 0
		if !math.IsNaN(e.start[d]) {
			span = max(span, e.end[d]-e.start[d]+left)
		}
	}
	key := fmt.Sprint(e.begun, e.start, e.end, e.ends, e.begins, e.of)
	if span >= e.least-1e-9 || e.met[key] {
		return
	}
	e.met[key] = true
	if done {
		e.least = span
		return
	}
	for stage, d := range e.Place.Device {
		of, memory := e.Times.Of(stage), e.memory(stage)
		held := memory.Input + memory.Residuals
		for kind, seconds := range [3]float64{of.F, of.I, of.W} {
			at, ok := e.ready(stage, kind)
			at = max(at, e.end[d])
			if !ok || at < e.begins || at == e.begins && d < e.of || kind == 0 && e.used[d]+held > e.room(d) {
				continue
			}
			start, end, used, begins, last := e.start[d], e.end[d], e.used[d], e.begins, e.of
			if math.IsNaN(start) {
				e.start[d] = at
			}
			e.end[d], e.begins, e.of = at+seconds, at, d
			e.used[d] += [3]float64{held, memory.Weights - held, -memory.Weights}[kind]
			e.begun[stage][kind]++
			if kind < 2 {
				e.ends[stage][kind] = append(e.ends[stage][kind], e.end[d])
			}
			e.explore()
			if kind < 2 {
				e.ends[stage][kind] = e.ends[stage][kind][:len(e.ends[stage][kind])-1]
			}
			e.begun[stage][kind]--
			e.start[d], e.end[d], e.used[d], e.begins, e.of = start, end, used, begins, last
		}
	}
}

// Of few devices and micro-batches the search finds a schedule that is as short as the shortest of
// all, with one chunk and with two, and none exactly where there is none.
func TestSearchIsTheShortest(t *testing.T) {
	durations := []Duration{{F: 2, I: 3, W: 1}, {F: 1, I: 1, W: 3}, {F: 1, I: 1, W: 1}}
	if testing.Short() {
		durations = durations[:1]
	}
	for _, c := range []struct {
		place Placement
		micro int
	}{{Straight(1), 3}, {Straight(2), 1}, {Straight(2), 3}, {Straight(3), 2}, {Straight(3), 3}, {Loop(2, 2), 1}, {Loop(2, 2), 2}, {Vee(2), 2}, {Vee(3), 1}} {
		for _, d := range durations {
			v := float64(c.place.Stages() / c.place.Devices)
			for limit := .5; limit <= float64(c.micro); limit += .5 {
				w := wanted(c.place.Devices, c.micro, Duration{F: d.F / v, I: d.I / v, W: d.W / v}, .25, .5/v, limit)
				w.Place, w.Memory[0].Residuals, w.Patience = c.place, 1/v, 0
				least := shortest(w)
				f, err := Search(w)
				switch {
				case math.IsInf(least, 1) != (err != nil):
					t.Errorf("%v, M = %d, %+v, limit %v: the shortest of all takes %v, and the search says %v", c.place.Device, c.micro, d, limit, least, err)
				case err == nil:
					if span := testkit.Must(Run(f.Lists, w.Place, w.Micro, w.Times))(t).Longest(); math.Abs(span-least) > 1e-9 || w.Least() > least+1e-9 {
						t.Errorf("%v, M = %d, %+v, limit %v: %v, the shortest of all takes %v, the bound is %v", c.place.Device, c.micro, d, limit, span, least, w.Least())
					}
				}
			}
		}
	}
}
