// Package formulas compares the formulas that papers print for bubbles and memory of
// schedules with what the schedules come to.
package formulas

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "bubbles-formulas", Folder: folder, New: lab.New[formulas], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Times    []times    `yaml:"times"`
	Weights  float64    `yaml:"weights" want:"0..1"` // M_W / M_B
	Chunks   int        `yaml:"chunks" want:"1..16"`
	Cells    []pipeline `yaml:"cells"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// times are in any unit.
type times struct {
	Name string  `yaml:"name" want:"name,key"`
	F    float64 `yaml:"f" want:">0..1e6"`
	B    float64 `yaml:"b" want:">0..1e6"`
	W    float64 `yaml:"w" want:">0..1e6"`
}

// work is a micro-batch's on a device.
func (t times) work() float64 { return t.F + t.B + t.W }

type pipeline struct {
	P int `yaml:"p" want:"2..32,key"`
	M int `yaml:"m" want:"1..1024,key"`
}

// formula is a schedule's, as printed; nil: none is.
type formula struct {
	name   string // of the generator
	chunks int    // 0: as many as the spec says
	bubble func(p, v float64, t times) float64
	// few is the step's span where m is at most p, where a paper has a formula for that.
	few    func(p, m float64, t times) float64
	memory func(p, v float64) float64 // M_B, of the device with most
}

func oneFOneB(p, _ float64, t times) float64      { return (p - 1) * t.work() }
func all(p, m float64, t times) float64           { return (m + p - 1) * t.work() }
func zeroBubbleFew(p, m float64, t times) float64 { return (m+p-1)*(t.F+t.B) + t.W }
func asMany(p, _ float64) float64                 { return p }

// printed are the formulas, in the order of the table.
var printed = []formula{
	{"gpipe", 1, oneFOneB, all, nil},
	{"1f1b", 1, oneFOneB, all, asMany},
	{"interleaved", 0, func(p, v float64, t times) float64 { return (p - 1) * t.work() / v }, nil,
		func(p, v float64) float64 { return p * (1 + (p-1)/(p*v)) }},
	{"zb-h1", 1, func(p, _ float64, t times) float64 { return (p - 1) * (t.F + t.B - t.W) }, zeroBubbleFew, asMany},
	{"zb-h2", 1, func(p, _ float64, t times) float64 { return (p - 1) * (t.F + t.B - 2*t.W) }, zeroBubbleFew,
		func(p, _ float64) float64 { return 2*p - 1 }},
	{"zb-v", 2, func(float64, float64, times) float64 { return 0 }, nil, asMany},
	{"v-half", 2, func(p, _ float64, t times) float64 { return (p - 1) * t.work() / 2 }, nil,
		func(p, _ float64) float64 { return p / 2 }},
	{"v-min", 2, func(p, _ float64, t times) float64 { return (p - 1) * t.work() * 2 / 3 }, nil,
		func(p, _ float64) float64 { return p / 3 }},
	// DualPipeV has p/2 devices where DualPipe has p. Its F beside a B takes as long as both here.
	// Memory is in activations of a half of what a device holds here.
	{"dualpipe-v", 2, func(p, _ float64, t times) float64 { return (p - 1) * (t.F + t.B + t.W + t.B + t.W - 3*t.W) / 2 }, nil,
		func(p, _ float64) float64 { return (2*p + 1) / 2 }},
}

type formulas struct {
	lab.Base[spec]
}

func (f *formulas) Resolve() *lab.Problem {
	for i, t := range f.Spec.Times {
		if t.B+t.W < t.F {
			return lab.At(errors.New("the times of B and W together are shorter than F: want as long or longer"), "times", fmt.Sprint(i))
		}
	}
	return nil
}

// sample is what a schedule comes to. Nothing in it depends on the machine.
type sample struct {
	Span float64 `json:"span"` // the longest of a device
	Peak float64 `json:"peak"` // M_B, of the device with most
}

func name(of formula, c pipeline, t times) string {
	return fmt.Sprintf("%s/p=%d/m=%d/%s", of.name, c.P, c.M, t.Name)
}

// each calls do for every row of the table.
func (f *formulas) each(do func(of formula, c pipeline, t times) error) error {
	for _, of := range printed {
		for _, c := range f.Spec.Cells {
			if of.name == "dualpipe-v" && c.M < 2*c.P {
				continue
			}
			for _, t := range f.Spec.Times {
				if err := do(of, c, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// chunksOf are those of a device.
func (f *formulas) chunksOf(of formula) int {
	if of.chunks == 0 {
		return f.Spec.Chunks
	}
	return of.chunks
}

func (f *formulas) Measure(_ context.Context, log *records.Log, p progress.Progress) error {
	rows := 0
	_ = f.each(func(formula, pipeline, times) error { rows++; return nil })
	p.Begin(f.ID(), rows)
	defer p.End()
	return f.each(func(of formula, c pipeline, t times) error {
		if log.Has(name(of, c, t)) {
			return nil
		}
		lists, place, err := schedule.Generate(of.name, c.P, f.chunksOf(of), c.M)
		if err != nil {
			return err
		}
		lists = schedule.Checkpointed(lists, schedule.Never, false)
		v := float64(f.chunksOf(of))
		ran, err := schedule.Run(lists, place, c.M, schedule.Alike(schedule.Duration{F: t.F / v, I: t.B / v, W: t.W / v}, 0))
		if err != nil {
			return err
		}
		s := sample{Span: ran.Longest()}
		for _, list := range lists {
			of := slices.Repeat([]schedule.Footprint{{Residuals: 1 / v, Weights: f.Spec.Weights / v}}, int(v))
			s.Peak = max(s.Peak, schedule.Peak(list, of))
		}
		p.Advance(name(of, c, t))
		return log.Add(name(of, c, t), 0, s)
	})
}

func (f *formulas) Report(log, _ *records.Log) (*lab.Report, error) {
	table := &lab.Table{ID: f.ID(), Title: f.Title(), Caption: []string{
		fmt.Sprintf("Bubbles in the unit of the times: a device's longest span less its work. Memory in M_B, of the device with most, with M_W = %g M_B. Interleaved 1f1b has %d chunks a device. Formulas as printed; of V-Half and V-Min their leading terms. Fewer micro-batches than devices have a formula of their own for 1f1b and for zero bubbles; the others' hold from m = p. DualPipeV's formula has F beside B in the time of both, since nothing overlaps within a device here.",
			f.Spec.Weights, f.Spec.Chunks),
	}}
	table.Texts("schedule")
	table.Numbers("p", "m")
	table.Texts("times")
	table.Numbers("bubble, formula", "bubble, run")
	table.Texts("bubble is the formula's")
	table.Numbers("memory, formula", "memory, run")
	table.Texts("memory is the formula's")
	err := f.each(func(of formula, c pipeline, t times) error {
		var s sample
		if err := log.Get(name(of, c, t), &s); err != nil {
			return err
		}
		p, m, v := float64(c.P), float64(c.M), float64(f.chunksOf(of))
		bubble, memory := math.NaN(), math.NaN()
		switch {
		case c.M >= c.P:
			bubble = of.bubble(p, v, t)
		case of.few != nil:
			bubble = of.few(p, m, t) - m*t.work()
		}
		if of.memory != nil && c.M >= 2*c.P {
			memory = of.memory(p, v)
		}
		row := []any{of.name, c.P, c.M, t.Name}
		row = append(row, beside(bubble, s.Span-m*t.work())...)
		table.Add(append(row, beside(memory, s.Peak)...)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &lab.Report{Tables: []*lab.Table{table}}, nil
}

// beside are a formula's value, a run's, and whether they are the same.
func beside(formula, run float64) []any {
	if math.Abs(run) < 1e-9 {
		run = 0
	}
	if math.IsNaN(formula) {
		return []any{lab.Absent, lab.Fixed(run, 2), lab.Absent}
	}
	return []any{lab.Fixed(formula, 2), lab.Fixed(run, 2), lab.YesOrNo(math.Abs(formula-run) < 1e-9)}
}
