package schedule

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// wanted is a search over one stage on each device, which takes long enough to find what
// the tests say.
func wanted(devices, micro int, d Duration, comm, weights, limit float64) Wanted {
	return Wanted{Place: Straight(devices), Micro: micro, Times: Alike(d, comm),
		Memory: []Footprint{{Residuals: 1, Weights: weights}}, Limit: limit, Seed: 1, Patience: 400}
}

// found is what the search finds; it must be legal, within the limit and not below the
// bound.
func found(t *testing.T, w Wanted) *Found {
	t.Helper()
	f := testkit.Must(Search(w))(t)
	testkit.Equal(t, Verify(f.Lists, w.Place, w.Micro), nil)
	for d, list := range f.Lists {
		of := make([]Footprint, len(w.Place.Chunks()[d]))
		for c := range of {
			of[c] = w.memory(w.Place.Chunks()[d][c])
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
// ZB-1p and ZB-2p in Table 5 of arXiv 2401.10241, or below. The first row's ZB-2p is as short as
// any schedule can be. The experiment bubbles-table5 has all rows; under -short this has the first.
func TestSearchTable5(t *testing.T) {
	for i, row := range []struct {
		micro    int
		d        Duration
		comm     float64
		weights  float64
		one, two float64
	}{
		{24, Duration{F: 18.522, I: 18.086, W: 9.337}, .601, 0.3664, .1585, .0433},
		{32, Duration{F: 18.513, I: 18.086, W: 9.331}, .626, 0.3664, .1242, .0039},
		{24, Duration{F: 29.718, I: 29.444, W: 19.927}, .527, 0.4324, .1323, .0029},
		{64, Duration{F: 29.935, I: 29.621, W: 19.388}, .535, 0.4324, .0554, .0010},
	} {
		if i > 0 && testing.Short() {
			break
		}
		for times, printed := range []float64{row.one, row.two} {
			w := wanted(8, row.micro, row.d, row.comm, row.weights, float64(8*(times+1)))
			span := found(t, w).Times.Longest()
			work := float64(row.micro) * (row.d.F + row.d.I + row.d.W)
			if rate := (span - work) / span; rate > printed+0.00005 {
				t.Errorf("M=%d, limit %v: bubble rate %.4f, printed %.4f", row.micro, w.Limit, rate, printed)
			}
			if least := w.Least(); i == 0 && times == 1 && span > least*(1+1e-12) {
				t.Errorf("%v, the bound is %v", span, least)
			}
		}
	}
}

// The same arguments give the same schedule, and another seed a legal one.
func TestSearchIsDeterministic(t *testing.T) {
	w := wanted(4, 10, Duration{F: 3, I: 4, W: 2}, .5, 0.5, 5)
	one, again := found(t, w), found(t, w)
	testkit.EqualDeep(t, one, again)
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
				w := wanted(devices, micro, Duration{F: 2, I: 3, W: 2}, .25, 0.5, float64(limit))
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
		w := wanted(4, 9, Duration{F: 2, I: 3, W: 1}, .25, 0.5, 12)
		w.Place = place
		span := found(t, w).Times.Longest()
		for _, name := range Names() {
			lists, of, err := Generate(name, 4, 2, 9)
			if err != nil || !slices.Equal(of.Device, place.Device) {
				continue
			}
			peak := 0.0
			for _, list := range Checkpointed(lists, Never, false) {
				peak = max(peak, Peak(list, slices.Repeat(w.Memory, 2)))
			}
			if alone := testkit.Must(Run(lists, place, 9, w.Times))(t).Longest(); peak <= w.Limit && span > alone+1e-9 {
				t.Errorf("%v, %s alone %v", span, name, alone)
			}
		}
	}
}

// Of stages that differ the search is within each device's room and above the bound, and
// better than the same schedules that do not know how they differ.
func TestSearchOfUnevenStages(t *testing.T) {
	w := wanted(4, 12, Duration{}, .5, 0, 6)
	w.Times.Stages, w.Memory = nil, nil
	for s := range 4 {
		x := float64(1 + s%3)
		w.Times.Stages = append(w.Times.Stages, Duration{F: x, I: x + 1, W: x})
		w.Memory = append(w.Memory, Footprint{Input: .1, Residuals: 1 + float64(s)/10, Weights: .5})
	}
	w.Always = []float64{.5, 1, 2, .25}
	f := found(t, w)
	for d, list := range f.Lists {
		if peak := Peak(list, []Footprint{w.Memory[d]}) + w.Always[d]; peak > w.Limit*(1+1e-9) {
			t.Errorf("device %d holds %v, limit %v", d, peak, w.Limit)
		}
	}
	even := w
	even.Times = Alike(w.Times.mean(), w.Times.Comm)
	other := testkit.Must(Run(found(t, even).Lists, w.Place, w.Micro, w.Times))(t)
	if f.Times.Longest() > other.Longest()+1e-9 {
		t.Errorf("%v, a schedule for even stages %v", f.Times.Longest(), other.Longest())
	}
	w.Makespan = true
	if m := found(t, w); m.Times.Makespan() > f.Times.Makespan()+1e-9 {
		t.Errorf("makespan %v, of the shortest span %v", m.Times.Makespan(), f.Times.Makespan())
	}
	w.Always[0] = 5.9
	if f, err := Search(w); err == nil {
		t.Errorf("with no room on device 0: %v", f)
	}
}

func TestSearchRefuses(t *testing.T) {
	for want, change := range map[string]func(*Wanted){
		"0 micro-batches":       func(w *Wanted) { w.Micro = 0 },
		"no schedule":           func(w *Wanted) { w.Limit = 0.5 },
		"want numbers from 0":   func(w *Wanted) { w.Times.Stages[0].F = -1 },
		"want no more":          func(w *Wanted) { w.Memory[0].Weights = 2 },
		"memory of 3 stages":    func(w *Wanted) { w.Memory = make([]Footprint, 3) },
		"3 devices always hold": func(w *Wanted) { w.Always = make([]float64, 3) },
		"device 1 has no stage": func(w *Wanted) { w.Place.Device = []int{0} },
	} {
		w := wanted(2, 3, Duration{F: 1, I: 1, W: 1}, 0, 0.5, 2)
		change(&w)
		testkit.Refused(Search(w))(t, want)
	}
}
