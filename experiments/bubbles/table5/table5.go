// Package table5 computes Table 5 of the paper on zero bubbles from its Table 9.
package table5

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "bubbles-table5", Folder: folder, New: lab.New[table5], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Sequence int     `yaml:"sequence" want:"1..1048576"` // tokens
	Rows     []row   `yaml:"rows"`
	Paper    []paper `yaml:"paper"`

	Profiles map[string]profile `yaml:"profiles"`
}

// row is a pipeline of Table 9. Times are milliseconds.
type row struct {
	Model  string  `yaml:"model" want:"name,key"`
	P      int     `yaml:"p" want:"2..64"`
	M      int     `yaml:"m" want:"1..512,key"`
	Layers int     `yaml:"layers" want:"1..1024"`
	Head   int     `yaml:"head" want:"1..1024"` // its size
	F      float64 `yaml:"f" want:">0..1e6"`
	B      float64 `yaml:"b" want:">0..1e6"`
	W      float64 `yaml:"w" want:">0..1e6"`
	Comm   float64 `yaml:"comm" want:"0..1e6"`
}

// paper is a row of Table 5.
type paper struct {
	Model       string       `yaml:"model" want:"name,key"`
	M           int          `yaml:"m" want:"1..512,key"`
	OneFOneB    lab.Verbatim `yaml:"1f1b"`
	Interleaved lab.Verbatim `yaml:"interleaved"`
	H1          lab.Verbatim `yaml:"h1"`
	H2          lab.Verbatim `yaml:"h2"`
	ZB1P        lab.Verbatim `yaml:"zb1p"`
	ZB2P        lab.Verbatim `yaml:"zb2p"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"2..64"` // devices
	Patience int      `yaml:"patience" want:"0..100000"`
}

// table5 runs schedules on a virtual clock.
type table5 struct {
	lab.Base[spec]
}

func (t *table5) Resolve() *lab.Problem {
	if len(t.Spec.Paper) != len(t.Spec.Rows) {
		return lab.At(fmt.Errorf("%d rows: want %d, one for each of rows", len(t.Spec.Paper), len(t.Spec.Rows)), "paper")
	}
	for i, r := range t.Spec.Rows {
		if (r.Layers+2)%r.P != 0 || r.M%r.P != 0 {
			return lab.At(fmt.Errorf("%d and two more layers, and %d micro-batches, on %d devices: want multiples", r.Layers, r.M, r.P), "rows", fmt.Sprint(i))
		}
		if p := t.Spec.Paper[i]; p.Model != r.Model || p.M != r.M {
			return lab.At(errors.New("want the model and m of the same row of rows"), "paper", fmt.Sprint(i))
		}
	}
	return nil
}

// durations are those of a stage.
func (r row) durations() schedule.Duration {
	return schedule.Duration{F: r.F, I: r.B, W: r.W}
}

// work is what a device does.
func (r row) work() float64 { return float64(r.M) * (r.F + r.B + r.W) }

// chunks are those of a device of the interleaved schedule: its layers.
func (r row) chunks() int { return (r.Layers + 2) / r.P }

// weights is M_W / M_B: of sb(34h + 5as), W needs 32sbh (Table 1).
func (r row) weights(sequence int) float64 {
	return 32 / (34 + 5*float64(sequence)/float64(r.Head))
}

func (r row) name() string { return fmt.Sprintf("%s/m=%d", r.Model, r.M) }

// ran is what a schedule comes to. Nothing in it depends on the machine.
type ran struct {
	Span     float64 `json:"span"`     // milliseconds, the longest of a device
	Makespan float64 `json:"makespan"` // milliseconds
	Peak     float64 `json:"peak"`     // memory of the device with most, in M_B
	Tried    int     `json:"tried,omitempty"`
}

// sample is a row of the table, by schedule.
type sample struct {
	OneFOneB    ran     `json:"1f1b"`
	Interleaved ran     `json:"interleaved"`
	H1          ran     `json:"h1"`
	H2          ran     `json:"h2"`
	ZB1P        ran     `json:"zb1p"`
	ZB2P        ran     `json:"zb2p"`
	Least       float64 `json:"least"` // a span that no schedule of one chunk can be below
}

// outcome is what lists on a placement come to, of times and memory of a chunk.
func (r row) outcome(lists [][]schedule.Task, p schedule.Placement, d schedule.Durations, of schedule.Footprint) (o ran, err error) {
	times, err := schedule.Run(lists, p, r.M, d)
	if err != nil {
		return o, err
	}
	o = ran{Span: times.Longest(), Makespan: times.Makespan()}
	for device, list := range lists {
		chunks := slices.Repeat([]schedule.Footprint{of}, len(p.Chunks()[device]))
		o.Peak = max(o.Peak, schedule.Peak(list, chunks))
	}
	return o, nil
}

func (t *table5) made(profile string) (rows []int) {
	for i, r := range t.Spec.Rows {
		if r.P <= t.Spec.Profiles[profile].Most {
			rows = append(rows, i)
		}
	}
	return rows
}

func (t *table5) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	of := t.made(log.Key.Profile)
	p.Begin(t.ID(), len(of))
	defer p.End()
	for _, i := range of {
		r := t.Spec.Rows[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if log.Has(r.name()) {
			continue
		}
		s, err := t.row(r, t.Spec.Profiles[log.Key.Profile].Patience)
		if err != nil {
			return err
		}
		if err := log.Add(r.name(), 0, s); err != nil {
			return err
		}
		p.Advance(r.name())
	}
	return nil
}

func (t *table5) row(r row, patience int) (s sample, err error) {
	whole := schedule.Footprint{Residuals: 1, Weights: r.weights(t.Spec.Sequence)}
	for _, c := range []struct {
		name   string
		chunks int
		into   *ran
	}{{"1f1b", 1, &s.OneFOneB}, {"interleaved", r.chunks(), &s.Interleaved}, {"zb-h1", 1, &s.H1}, {"zb-h2", 1, &s.H2}} {
		lists, place, err := schedule.Generate(c.name, r.P, c.chunks, r.M)
		if err != nil {
			return s, err
		}
		lists = schedule.Checkpointed(lists, schedule.Never, false)
		if err := schedule.Verify(lists, place, r.M); err != nil {
			return s, err
		}
		v, d, of := float64(c.chunks), r.durations(), whole
		d.F, d.I, d.W, of.Residuals, of.Weights = d.F/v, d.I/v, d.W/v, of.Residuals/v, of.Weights/v
		if *c.into, err = r.outcome(lists, place, schedule.Alike(d, r.Comm), of); err != nil {
			return s, err
		}
	}
	for times, into := range []*ran{&s.ZB1P, &s.ZB2P} {
		w := schedule.Wanted{Place: schedule.Straight(r.P), Micro: r.M, Times: schedule.Alike(r.durations(), r.Comm), Memory: []schedule.Footprint{whole},
			Limit: float64(r.P * (times + 1)), Seed: t.Spec.Seed, Patience: patience}
		found, err := schedule.Search(w)
		if err != nil {
			return s, err
		}
		if *into, err = r.outcome(found.Lists, w.Place, w.Times, whole); err != nil {
			return s, err
		}
		into.Tried, s.Least = found.Tried, w.Least()
	}
	return s, nil
}

func (t *table5) Report(log, _ *records.Log) (*lab.Report, error) {
	of := t.made(log.Key.Profile)
	samples := make([]sample, len(of))
	for at, i := range of {
		if err := log.Get(t.Spec.Rows[i].name(), &samples[at]); err != nil {
			return nil, err
		}
	}
	r := &lab.Report{Tables: []*lab.Table{t.rates(of, samples), t.memory(of, samples), t.spans(of, samples), t.times(of)}}
	var err error
	r.Files, err = plot.Files(t.ID(), t.Title(), []plot.Axes{t.panel(of, samples)})
	return r, err
}

// rate is the part of a time that is no work.
func (r row) rate(span float64) lab.Value { return lab.Fixed((span-r.work())/span, 4) }

func (t *table5) rates(of []int, samples []sample) *lab.Table {
	table := &lab.Table{ID: t.ID(), Title: t.Title(), Caption: []string{
		"The part of a step in which a device idles: (span - m(T_F + T_B + T_W)) / span, with the longest span of a device, from its first task to the end of its last. Interleaved: by the closed form that has the printed figures, with the layers of a device as its chunks, and run on the clock with as many chunks. ZB-1p and ZB-2p: searched within p M_B and 2p M_B. Bound: no schedule with one chunk a device can be below, whatever its memory.",
	}}
	table.Texts("model")
	table.Numbers("p", "m", "1F1B", "1F1B, paper", "interleaved, formula", "interleaved, run", "interleaved, paper", "H1", "H1, paper", "H2", "H2, paper",
		"ZB-1p, search", "ZB-1p, paper", "ZB-2p, search", "ZB-2p, paper", "bound")
	for at, i := range of {
		r, s, p := t.Spec.Rows[i], samples[at], t.Spec.Paper[i]
		closed := r.work() + schedule.InterleavedBubble(r.P, r.chunks(), r.durations(), r.Comm)
		table.Add(r.Model, r.P, r.M, r.rate(s.OneFOneB.Span), p.OneFOneB, r.rate(closed), r.rate(s.Interleaved.Span), p.Interleaved,
			r.rate(s.H1.Span), p.H1, r.rate(s.H2.Span), p.H2, r.rate(s.ZB1P.Span), p.ZB1P, r.rate(s.ZB2P.Span), p.ZB2P, r.rate(s.Least))
	}
	return table
}

func (t *table5) memory(of []int, samples []sample) *lab.Table {
	table := &lab.Table{ID: t.ID() + "-memory", Title: "Activations of the device with most", Caption: []string{
		"In M_B, the activations of a micro-batch on a device; from the end of B to that of W a part of them stays, M_W. Tried: schedules in the search for each limit.",
	}}
	table.Texts("model")
	table.Numbers("p", "m", "M_W / M_B", "1F1B", "interleaved", "H1", "H2", "ZB-1p, search", "ZB-2p, search", "tried for ZB-1p", "tried for ZB-2p")
	for at, i := range of {
		r, s := t.Spec.Rows[i], samples[at]
		table.Add(r.Model, r.P, r.M, lab.Fixed(r.weights(t.Spec.Sequence), 3), lab.Fixed(s.OneFOneB.Peak, 2), lab.Fixed(s.Interleaved.Peak, 2),
			lab.Fixed(s.H1.Peak, 2), lab.Fixed(s.H2.Peak, 2), lab.Fixed(s.ZB1P.Peak, 2), lab.Fixed(s.ZB2P.Peak, 2), s.ZB1P.Tried, s.ZB2P.Tried)
	}
	return table
}

func (t *table5) spans(of []int, samples []sample) *lab.Table {
	table := &lab.Table{ID: t.ID() + "-makespan", Title: "Bubble rates over makespans", Caption: []string{
		"As above, with the time from the first device's first task to the last device's last one in place of the longest span of a device: what a step takes if all devices must wait for the slowest before the next one.",
	}}
	table.Texts("model")
	table.Numbers("p", "m", "1F1B", "interleaved", "H1", "H2", "ZB-1p, search", "ZB-2p, search")
	for at, i := range of {
		r, s := t.Spec.Rows[i], samples[at]
		table.Add(r.Model, r.P, r.M, r.rate(s.OneFOneB.Makespan), r.rate(s.Interleaved.Makespan), r.rate(s.H1.Makespan), r.rate(s.H2.Makespan),
			r.rate(s.ZB1P.Makespan), r.rate(s.ZB2P.Makespan))
	}
	return table
}

func (t *table5) times(of []int) *lab.Table {
	table := &lab.Table{ID: t.ID() + "-times", Title: "Times of tasks", Caption: []string{"Table 9, in milliseconds, as printed."}}
	table.Texts("model")
	table.Numbers("p", "m", "T_F", "T_B", "T_W", "T_comm", "T_B / T_F", "T_W / T_F")
	for _, i := range of {
		r := t.Spec.Rows[i]
		table.Add(r.Model, r.P, r.M, lab.Fixed(r.F, 3), lab.Fixed(r.B, 3), lab.Fixed(r.W, 3), lab.Fixed(r.Comm, 3), lab.Fixed(r.B/r.F, 3), lab.Fixed(r.W/r.F, 3))
	}
	return table
}

// panel draws rates by row.
func (t *table5) panel(of []int, samples []sample) *plot.LinePanel {
	panel := &plot.LinePanel{Title: "idle part of a step", X: "model, m", Y: "bubble rate"}
	for _, i := range of {
		panel.Names = append(panel.Names, fmt.Sprintf("%s, %d", t.Spec.Rows[i].Model, t.Spec.Rows[i].M))
	}
	for _, c := range []struct {
		name string
		of   func(sample) ran
	}{
		{"1F1B", func(s sample) ran { return s.OneFOneB }},
		{"interleaved", func(s sample) ran { return s.Interleaved }},
		{"ZB-H1", func(s sample) ran { return s.H1 }},
		{"ZB-H2", func(s sample) ran { return s.H2 }},
		{"searched, 2p M_B", func(s sample) ran { return s.ZB2P }},
	} {
		var points []plot.Point
		for at, i := range of {
			r := t.Spec.Rows[i]
			points = append(points, plot.Point{X: float64(at), Y: r.rate(c.of(samples[at]).Span).Numbers[0]})
		}
		panel.Series = append(panel.Series, plot.Series{Name: c.name, Lines: [][]plot.Point{points}})
	}
	return panel
}
