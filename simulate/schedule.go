package simulate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/simulate/schedulepage"
	"gpipebench/train"
)

// Scheduling is a schedule by itself: no network, but how long its tasks take and what
// they keep.
type Scheduling struct {
	Schedule string // a name, or a file of PyTorch's format (.csv), which has its own K, chunks and M
	K, M     int
	Window   int // mini-batches of M micro-batches between two drains, of asynchronous schedules; 0 with others
	Chunks   int // of each device; 0: as the schedule has, and one or two where it is searched
	Times    TaskTimes
	// Activations are what a device has of a micro-batch, all chunks together: until its
	// backward function is over, and of that, from I to the end of W.
	Activations struct{ Whole, Weights float64 }
	// Search looks for a schedule within Limit, in the unit of Activations, in place of Schedule.
	Search bool
	Limit  float64
	Seed   uint64
}

// TaskTimes are milliseconds for each device and micro-batch, all chunks together.
type TaskTimes struct {
	schedule.Duration
	Comm float64 // from one device to another
	// File, if there is one, has the times of each stage in place of Duration (ReadProfile).
	File string
}

// ParseTaskTimes reads pairs such as f=1.5,b=2,w=1,u=.1,comm=.5, each of which is optional, or the name of
// a file that ends in .csv, with comm=N, before it or not.
func ParseTaskTimes(text string) (t TaskTimes, err error) {
	t.Duration = schedule.Duration{F: 1, I: 1, W: 1}
	into := map[string]*float64{"f": &t.F, "b": &t.I, "w": &t.W, "u": &t.U, "comm": &t.Comm}
	if !strings.HasSuffix(text, ".csv") {
		return t, ParseNumbers(text, into, "f,b,w,u,comm")
	}
	if comm, file, ok := strings.Cut(text, ","); ok && strings.HasPrefix(comm, "comm=") {
		text, err = file, ParseNumbers(comm, into, "comm")
	}
	t.File = text
	return t, err
}

// Scheduled is what a schedule comes to. Times are milliseconds.
type Scheduled struct {
	Makespan   float64           `json:"makespan"`
	Span       float64           `json:"span"`        // the longest time between a device's start and end
	BubbleRate float64           `json:"bubble_rate"` // the part of Span in which its device does nothing
	Devices    []ScheduledDevice `json:"devices"`
	Searched   *Searched         `json:"searched,omitempty"`

	Lists [][]schedule.Task  `json:"-"`
	Place schedule.Placement `json:"-"`
	Micro int                `json:"-"`
	// Timeline has the tasks, in seconds.
	Timeline *timeline.Timeline `json:"-"`
}

// Searched is how a schedule was found.
type Searched struct {
	From  string  `json:"from"`            // what the search began with: a generator, or greedy
	Tried int     `json:"tried"`           // schedules
	Least float64 `json:"least,omitempty"` // a span that none can be below, with stages in these places
}

// ScheduledDevice is one of its devices.
type ScheduledDevice struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Busy  float64 `json:"busy"`
	// Versions of the weights that an asynchronous schedule keeps here, and by how many updates the
	// oldest is behind when its gradient is applied. 0: it is a synchronous one.
	Versions  int     `json:"versions,omitempty"`
	Staleness int     `json:"staleness,omitempty"`
	Peak      float64 `json:"peak_memory"` // in the unit of Activations
	// Idle is the rest of Makespan, by cause, in milliseconds.
	Idle timeline.Idle `json:"idle"`
}

// maxScheduled limits the forward tasks of a schedule, each of which takes about 1,700 bytes with what follows from it.
const maxScheduled = gpipe.MaxCells / 8

// Run makes or reads the schedule, verifies it and runs it on a virtual clock.
func (s Scheduling) Run() (*Scheduled, error) {
	r := &Scheduled{Micro: s.M}
	var err error
	file := !s.Search && train.NamesScheduleFile(s.Schedule)
	if cells := float64(s.K) * float64(max(s.Chunks, 1)) * float64(max(s.Window, 1)) * float64(s.M); !file && cells > maxScheduled {
		return nil, failure.Usagef("%.0f forward tasks of all devices and micro-batches: want a product of at most %d", cells, maxScheduled)
	}
	if file {
		r.Lists, r.Place, r.Micro, err = train.ReadSchedule(s.Schedule)
	} else if s.Search {
		err = s.search(r)
	} else if of, unknown := schedule.Parse(s.Schedule); s.Window > 0 || unknown == nil && of.Asynchronous() {
		err = s.window(r, of)
	} else if r.Lists, r.Place, err = schedule.Generate(s.Schedule, s.K, s.Chunks, s.M); err != nil {
		err = failure.Usage(plain(err))
	} else {
		r.Lists = schedule.Checkpointed(r.Lists, schedule.Never, false)
	}
	if err != nil {
		return nil, err
	}
	if err := schedule.Verify(r.Lists, r.Place, r.Micro); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Printable(s.Schedule), err)
	}
	return s.outcome(r)
}

// window makes the lists of a window of an asynchronous schedule, and verifies them by its
// definition.
func (s Scheduling) window(r *Scheduled, of schedule.Schedule) (err error) {
	switch {
	case !of.Asynchronous():
		return failure.Usagef("a window of %d mini-batches with %s: want one of %s", s.Window, files.Printable(s.Schedule), strings.Join(schedule.AsynchronousNames(), ", "))
	case s.Window < 1:
		return failure.Usagef("%s with a window of %d mini-batches: want 1 or more between two drains", s.Schedule, s.Window)
	case s.Chunks > 1:
		return failure.Usagef("%d chunks on each device with %s: want 1", s.Chunks, s.Schedule)
	}
	ends := schedule.Ends(s.Window, s.M)
	r.Place, r.Micro = schedule.Straight(s.K), s.Window*s.M
	if r.Lists, err = schedule.Window(of, s.K, ends, schedule.Never); err != nil {
		return failure.Usage(plain(err))
	}
	return schedule.VerifyWindow(of, r.Lists, ends)
}

// durations are the times of the stages that a placement has, v on each device.
func (s Scheduling) durations(place schedule.Placement, v float64) (schedule.Durations, error) {
	if s.Times.File == "" {
		return schedule.Alike(s.chunk(v), s.Times.Comm), nil
	}
	p, err := ReadProfile(s.Times.File)
	if err != nil {
		return schedule.Durations{}, err
	}
	if len(p.Times) != place.Stages() {
		return schedule.Durations{}, failure.Usagef("%s has %d rows, and the schedule %d stages on %d devices: want a row for each stage",
			files.Printable(s.Times.File), len(p.Times), place.Stages(), place.Devices)
	}
	return schedule.Durations{Stages: p.Times, Comm: s.Times.Comm}, nil
}

// outcome runs the schedule on a virtual clock.
func (s Scheduling) outcome(r *Scheduled) (*Scheduled, error) {
	chunks := r.Place.Chunks()
	v := float64(most(chunks))
	d, err := s.durations(r.Place, v)
	if err != nil {
		return nil, err
	}
	times, err := schedule.Run(r.Lists, r.Place, r.Micro, d)
	if err != nil {
		return nil, err
	}
	r.Makespan, r.Span = times.Makespan(), times.Longest()
	r.Timeline = timeline.Scheduled(r.Lists, r.Place, times, 1e-3)
	idle := timeline.Scheduled(r.Lists, r.Place, times, 1).Causes()
	for device, list := range r.Lists {
		one := ScheduledDevice{Start: times.Start[device][0], End: times.End[device][len(list)-1], Idle: idle[device]}
		for _, t := range list {
			one.Busy += d.Of(chunks[device][t.Chunk]).Of(t.Kind)
		}
		if one.End-one.Start == r.Span && r.Span > 0 {
			r.BubbleRate = 1 - one.Busy/r.Span
		}
		one.Peak = schedule.Peak(list, slices.Repeat(s.footprint(v), len(chunks[device])))
		if s.Window > 0 {
			_, one.Versions = schedule.WeightSlots(list)
			one.Staleness = schedule.Staleness(list)
		}
		r.Devices = append(r.Devices, one)
	}
	return r, nil
}

// most is the largest number of chunks of a device.
func most(chunks [][]int) (n int) {
	for _, c := range chunks {
		n = max(n, len(c))
	}
	return n
}

// footprint is what one of v chunks of a device keeps.
func (s Scheduling) footprint(v float64) []schedule.Footprint {
	return []schedule.Footprint{{Residuals: s.Activations.Whole / v, Weights: s.Activations.Weights / v}}
}

// chunk has the times of one of v chunks of a device.
func (s Scheduling) chunk(v float64) schedule.Duration {
	return schedule.Duration{F: s.Times.F / v, I: s.Times.I / v, W: s.Times.W / v, U: s.Times.U / v}
}

// places returns where the stages lie in the schedules that are searched: without a number of chunks, one on each device and
// two; two lie there and back, and in turns.
func (s Scheduling) places() (all []schedule.Placement) {
	if s.Chunks < 2 || s.K == 1 {
		all = append(all, schedule.Loop(s.K, max(1, s.Chunks)))
	}
	if s.Chunks != 1 && s.K > 1 {
		all = append(all, schedule.Loop(s.K, max(2, s.Chunks)))
	}
	if (s.Chunks == 0 || s.Chunks == 2) && s.K > 1 {
		all = append(all, schedule.Vee(s.K))
	}
	return all
}

// search looks for a schedule in every place, unless a bound says that it is no shorter there.
func (s Scheduling) search(r *Scheduled) error {
	var best *schedule.Found
	var failed error
	tried := 0
	for _, place := range s.places() {
		v := float64(place.Stages() / place.Devices)
		times, err := s.durations(place, v)
		if err != nil { // a file has rows for some places only
			failed = cmp.Or(failed, err)
			continue
		}
		w := schedule.Wanted{
			Place: place, Micro: s.M, Seed: s.Seed, Limit: s.Limit,
			Times: times, Memory: s.footprint(v),
		}
		if best != nil && best.Times.Longest() <= w.Least() {
			continue
		}
		found, err := schedule.Search(w)
		if err != nil {
			return plain(err)
		}
		tried += found.Tried
		if best == nil || found.Times.Longest() < best.Times.Longest()*(1-1e-12) {
			best = found
			r.Lists, r.Place = found.Lists, place
			r.Searched = &Searched{From: found.From, Least: w.Least()}
		}
	}
	if best == nil {
		return failed
	}
	r.Searched.Tried = tried
	return nil
}

// CSV writes the schedule as PyTorch does.
func (r *Scheduled) CSV(w io.Writer) error {
	return schedule.WriteCSV(w, r.Lists, r.Place, r.Micro)
}

// SVG draws the tasks over time.
func (r *Scheduled) SVG(w io.Writer, caption string) error {
	return draw.WriteSVG(w, draw.Drawing{Caption: caption, Timeline: r.Timeline})
}

// HTML writes a page on which the schedule's sizes, times and limit of memory are moved. A
// schedule that no generator makes is on it as it is, with times that are moved.
func (r *Scheduled) HTML(w io.Writer, s Scheduling) error {
	g := schedulepage.Given{
		Schedule: s.Schedule, K: r.Place.Devices, M: r.Micro, V: most(r.Place.Chunks()),
		F: s.Times.F, B: s.Times.I, W: s.Times.W, U: s.Times.U, Comm: s.Times.Comm, Whole: s.Activations.Whole, Limit: s.Limit,
	}
	if g.Whole > 0 {
		g.Weights = s.Activations.Weights / g.Whole
	}
	if s.Search {
		g.Schedule = "searched"
	}
	if !slices.Contains(schedule.Names(), g.Schedule) {
		g.Lists, g.Place = schedulepage.Tasks(r.Lists), r.Place.Device
	}
	return schedulepage.Write(w, g)
}

// ParseNumbers reads name=number pairs for the names wanted, each at most once, such as
// f=1.5,b=2; those not given stay as they are. Numbers are from 0 to the largest float32, so that
// sums are finite.
func ParseNumbers(text string, into map[string]*float64, names string) error {
	given := map[string]bool{}
	for _, pair := range strings.Split(text, ",") {
		name, number, ok := strings.Cut(strings.TrimSpace(pair), "=")
		to := into[name]
		if !ok || to == nil || given[name] {
			return fmt.Errorf("want %s, each at most once, such as %s=1.5", names, strings.Split(names, ",")[0])
		}
		var v float64
		if _, err := fmt.Sscanf(number+"\n", "%g\n", &v); err != nil || !(v >= 0) || v > math.MaxFloat32 {
			return fmt.Errorf("want a number from 0 to %.1e for %s", math.MaxFloat32, name)
		}
		given[name] = true
		*to = v
	}
	return nil
}
