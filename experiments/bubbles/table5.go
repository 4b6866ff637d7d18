package bubbles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
)

type table5Spec struct {
	lab.Head   `yaml:",inline"`
	shown.Spec `yaml:",inline"`
	Sequence   int             `yaml:"sequence" want:"1..1048576"` // tokens
	Rows       []table5Row     `yaml:"rows"`
	Paper      []table5Printed `yaml:"paper" want:"optional"`

	Profiles map[string]struct {
		Expected lab.Span `yaml:"expected" want:"shown"`
		Most     int      `yaml:"most" want:"2..64"` // devices
		Patience int      `yaml:"patience" want:"0..100000"`
	} `yaml:"profiles"`
}

// table5Printed is a row of Table 5.
type table5Printed struct {
	Model       string       `yaml:"model" want:"name,key"`
	M           int          `yaml:"m" want:"1..512,key"`
	OneFOneB    lab.Verbatim `yaml:"1f1b"`
	Interleaved lab.Verbatim `yaml:"interleaved"`
	H1          lab.Verbatim `yaml:"h1"`
	H2          lab.Verbatim `yaml:"h2"`
	ZB1P        lab.Verbatim `yaml:"zb1p"`
	ZB2P        lab.Verbatim `yaml:"zb2p"`
}

// table5Row is a pipeline of Table 9. Times are milliseconds.
type table5Row struct {
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

func (p table5Printed) isOf(r table5Row) bool { return p.Model == r.Model && p.M == r.M }

// durations returns a stage's durations.
func (r table5Row) durations() schedule.Duration { return schedule.Duration{F: r.F, I: r.B, W: r.W} }

// work is what a device does.
func (r table5Row) work() float64 { return float64(r.M) * (r.F + r.B + r.W) }

// chunks returns a device's chunks in the interleaved schedule: its layers.
func (r table5Row) chunks() int { return (r.Layers + 2) / r.P }

// weights is M_W / M_B: of sb(34h + 5as), W needs 32sbh (Table 1).
func (r table5Row) weights(sequence int) float64 {
	return 32 / (34 + 5*float64(sequence)/float64(r.Head))
}

// ran is what a schedule comes to.
type ran struct {
	Span     float64 `json:"span"`     // milliseconds, the longest of a device
	Makespan float64 `json:"makespan"` // milliseconds
	Peak     float64 `json:"peak"`     // memory of the device with most, in M_B
	Tried    int     `json:"tried,omitempty"`
}

// table5Sample is a row of the table, by schedule.
type table5Sample struct {
	OneFOneB    ran     `json:"1f1b"`
	Interleaved ran     `json:"interleaved"`
	H1          ran     `json:"h1"`
	H2          ran     `json:"h2"`
	ZB1P        ran     `json:"zb1p"`
	ZB2P        ran     `json:"zb2p"`
	Least       float64 `json:"least"` // a span that no schedule of one chunk can be below
}

// bubblesTable5 computes Table 5 of the paper on zero bubbles from its Table 9. It needs code to
// run schedules on a virtual clock, and to search them.
var bubblesTable5 = cells.Kind[table5Spec, table5Sample]{
	Check: func(s *table5Spec) *lab.Problem {
		for i, r := range s.Rows {
			if (r.Layers+2)%r.P != 0 || r.M%r.P != 0 {
				return lab.At(fmt.Errorf("%d and two more layers, and %d micro-batches, on %d devices: want multiples", r.Layers, r.M, r.P), "rows", strconv.Itoa(i))
			}
		}
		for i, p := range s.Paper {
			if !slices.ContainsFunc(s.Rows, p.isOf) {
				return lab.At(errors.New("want the model and m of one of rows"), "paper", strconv.Itoa(i))
			}
		}
		return nil
	},
	Rows: func(s *table5Spec, profile string) (rows []cells.Row[table5Sample], err error) {
		for _, r := range s.Rows {
			if r.P > s.Profiles[profile].Most {
				continue
			}
			var p table5Printed
			for _, of := range s.Paper {
				if of.isOf(r) {
					p = of
				}
			}
			rows = append(rows, cells.Row[table5Sample]{
				Has: shown.Values{
					"model": r.Model, "p": r.P, "m": r.M, "row": fmt.Sprintf("%s, %d", r.Model, r.M), "f": r.F, "b": r.B, "w": r.W, "comm": r.Comm, "work": r.work(),
					"closed":     r.work() + schedule.InterleavedBubble(r.P, r.chunks(), r.durations(), r.Comm),
					"paper_1f1b": p.OneFOneB.Printed(""), "paper_interleaved": p.Interleaved.Printed(""), "paper_h1": p.H1.Printed(""), "paper_h2": p.H2.Printed(""),
					"paper_zb1p": p.ZB1P.Printed(""), "paper_zb2p": p.ZB2P.Printed(""),
				},
				Reads: []cells.Cell[table5Sample]{{As: "of", Sample: fmt.Sprintf("%s/m=%d", r.Model, r.M), Make: func(context.Context) (table5Sample, error) {
					return s.row(r, s.Profiles[profile].Patience)
				}}},
			})
		}
		return rows, nil
	},
}

// runOn is what lists of m micro-batches on a placement come to, of times and memory of a chunk.
func runOn(lists [][]schedule.Task, p schedule.Placement, m int, d schedule.Durations, of schedule.Footprint) (o ran, err error) {
	times, err := schedule.Run(lists, p, m, d)
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

func (t *table5Spec) row(r table5Row, patience int) (s table5Sample, err error) {
	whole := schedule.Footprint{Residuals: 1, Weights: r.weights(t.Sequence)}
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
		if *c.into, err = runOn(lists, place, r.M, schedule.Alike(d, r.Comm), of); err != nil {
			return s, err
		}
	}
	for times, into := range []*ran{&s.ZB1P, &s.ZB2P} {
		w := schedule.Wanted{Place: schedule.Straight(r.P), Micro: r.M, Times: schedule.Alike(r.durations(), r.Comm), Memory: []schedule.Footprint{whole},
			Limit: float64(r.P * (times + 1)), Seed: t.Head.Seed, Patience: patience}
		found, err := schedule.Search(w)
		if err != nil {
			return s, err
		}
		if *into, err = runOn(found.Lists, w.Place, r.M, w.Times, whole); err != nil {
			return s, err
		}
		into.Tried, s.Least = found.Tried, w.Least()
	}
	return s, nil
}
