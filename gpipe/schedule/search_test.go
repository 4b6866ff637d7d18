package schedule

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// wanted is a search over one stage on each device, which takes long enough to find what
// the tests say.
func wanted(devices, micro int, d Durations, weights, limit float64) Wanted {
	return Wanted{Place: Straight(devices), Micro: micro, Times: d,
		Memory: Footprint{Residuals: 1, Weights: weights}, Limit: limit, Seed: 1, Patience: 400}
}

// found is what the search finds; it must be legal, within the limit and not below the
// bound.
func found(t *testing.T, w Wanted) *Found {
	t.Helper()
	f, err := Search(w)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(f.Lists, w.Place, w.Micro); err != nil {
		t.Error(err)
	}
	for d, list := range f.Lists {
		of := make([]Footprint, len(w.Place.Chunks()[d]))
		for c := range of {
			of[c] = w.Memory
		}
		if peak := Peak(list, of); peak > w.Limit*(1+1e-9) {
			t.Errorf("device %d holds %v, limit %v", d, peak, w.Limit)
		}
	}
	if w.Place.Stages() == w.Place.Devices && f.Times.Longest() < w.Least()*(1-1e-12) {
		t.Errorf("%v, below the bound %v", f.Times.Longest(), w.Least())
	}
	return f
}

// With the memory of 1f1b and with twice as much the search comes to the bubble rates of
// ZB-1p and ZB-2p in Table 5 of arXiv 2401.10241, or below. The experiment bubbles-table5
// has all rows.
func TestSearchTable5(t *testing.T) {
	for _, row := range []struct {
		micro    int
		d        Durations
		weights  float64
		one, two float64
	}{
		{24, Durations{F: 18.522, I: 18.086, W: 9.337, Comm: .601}, 0.3664, .1585, .0433},
		{32, Durations{F: 18.513, I: 18.086, W: 9.331, Comm: .626}, 0.3664, .1242, .0039},
		{24, Durations{F: 29.718, I: 29.444, W: 19.927, Comm: .527}, 0.4324, .1323, .0029},
		{64, Durations{F: 29.935, I: 29.621, W: 19.388, Comm: .535}, 0.4324, .0554, .0010},
	} {
		for times, printed := range []float64{row.one, row.two} {
			w := wanted(8, row.micro, row.d, row.weights, float64(8*(times+1)))
			span := found(t, w).Times.Longest()
			work := float64(row.micro) * (row.d.F + row.d.I + row.d.W)
			if rate := (span - work) / span; rate > printed+0.00005 {
				t.Errorf("M=%d, limit %v: bubble rate %.4f, printed %.4f", row.micro, w.Limit, rate, printed)
			}
		}
	}
}

// The first row's ZB-2p is as short as any schedule can be.
func TestSearchReachesBound(t *testing.T) {
	w := wanted(8, 24, Durations{F: 18.522, I: 18.086, W: 9.337, Comm: .601}, 0.3664, 16)
	if got, least := found(t, w).Times.Longest(), w.Least(); got > least*(1+1e-12) {
		t.Errorf("%v, the bound is %v", got, least)
	}
}

// The same arguments give the same schedule, and another seed a legal one.
func TestSearchIsDeterministic(t *testing.T) {
	w := wanted(4, 10, Durations{F: 3, I: 4, W: 2, Comm: .5}, 0.5, 5)
	one, again := found(t, w), found(t, w)
	if !reflect.DeepEqual(one, again) {
		t.Errorf("%v, then %v", one, again)
	}
	w.Seed = 2
	found(t, w)
}

// More memory never makes a schedule longer, whatever the sizes; and with chunks the search
// starts with the generators' schedules, which it does not make worse.
func TestSearchSizes(t *testing.T) {
	for devices := 1; devices <= 4; devices++ {
		for _, micro := range []int{1, 2, 5, 9} {
			before := 0.0
			for limit := devices; limit <= 2*devices; limit += devices {
				w := wanted(devices, micro, Durations{F: 2, I: 3, W: 2, Comm: .25}, 0.5, float64(limit))
				w.Patience = 50
				span := found(t, w).Times.Longest()
				if before > 0 && span > before+1e-9 {
					t.Errorf("K=%d M=%d: %v with %d, %v with %d", devices, micro, before, limit-devices, span, limit)
				}
				before = span
			}
		}
	}
	for _, place := range []Placement{Vee(4), Loop(4, 2)} {
		w := wanted(4, 9, Durations{F: 2, I: 3, W: 1, Comm: .25}, 0.5, 12)
		w.Place = place
		f := found(t, w)
		lists, _, err := Generate(f.From, 4, 2, 9)
		if err != nil {
			t.Fatal(err)
		}
		times, err := Run(lists, place, 9, w.Times)
		if err != nil {
			t.Fatal(err)
		}
		if f.Times.Longest() > times.Longest()+1e-9 {
			t.Errorf("%v, %s alone %v", f.Times.Longest(), f.From, times.Longest())
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	for want, change := range map[string]func(*Wanted){
		"0 micro-batches":       func(w *Wanted) { w.Micro = 0 },
		"no schedule":           func(w *Wanted) { w.Limit = 0.5 },
		"want numbers from 0":   func(w *Wanted) { w.Times.F = -1 },
		"want no more":          func(w *Wanted) { w.Memory.Weights = 2 },
		"device 1 has no stage": func(w *Wanted) { w.Place.Device = []int{0} },
	} {
		w := wanted(2, 3, Durations{F: 1, I: 1, W: 1}, 0.5, 2)
		change(&w)
		if f, err := Search(w); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want an error with %q: %v, %v", want, f, err)
		}
	}
}
