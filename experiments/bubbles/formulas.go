package bubbles

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
)

type formulasSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Times                            []times    `yaml:"times"`
	Weights                          float64    `yaml:"weights" want:"0..1"` // M_W / M_B
	Chunks                           int        `yaml:"chunks" want:"1..16"` // of interleaved schedules
	Cells                            []pipeline `yaml:"cells"`
	Formulas                         []formula  `yaml:"formulas" want:"shown"`
}

// times are in any unit.
type times struct {
	Name string  `yaml:"name" want:"name,key"`
	F    float64 `yaml:"f" want:">0..1e6"`
	B    float64 `yaml:"b" want:">0..1e6"`
	W    float64 `yaml:"w" want:">0..1e6"`
}

type pipeline struct {
	P int `yaml:"p" want:"2..32,key"`
	M int `yaml:"m" want:"1..1024,key"`
}

// formula is a schedule's, as printed, of p, m, v chunks on a device and the times f, b and w.
type formula struct {
	Schedule string `yaml:"schedule" want:"schedule,key"`
	Bubble   string `yaml:"bubble"`
	Few      string `yaml:"few" want:"optional"`    // the span where m is less than p
	Memory   string `yaml:"memory" want:"optional"` // M_B, of the device with most
}

// known evaluates what the formula says of a cell; NaN: nothing.
func (f formula) known(c pipeline, of shown.Values) (bubble, memory float64, err error) {
	number := func(text string, says bool) float64 {
		if !says || text == "" || err != nil {
			return math.NaN()
		}
		var x float64
		x, err = of.Number(text)
		return x
	}
	bubble, memory = number(f.Bubble, c.M >= c.P), number(f.Memory, c.M >= 2*c.P)
	if few := number(f.Few, c.M < c.P); !math.IsNaN(few) {
		bubble = few - float64(c.M)*of["work"].(float64)
	}
	return bubble, memory, err
}

// outcome is what a schedule comes to.
type outcome struct {
	Span float64 `json:"span"` // the longest of a device
	Peak float64 `json:"peak"` // M_B, of the device with most
}

// bubblesFormulas compares the formulas that papers print for bubbles and memory of schedules
// with what the schedules come to. It needs code to run schedules on a virtual clock.
var bubblesFormulas = cells.Kind[formulasSpec, outcome]{
	Check: func(s *formulasSpec) *lab.Problem {
		for i, t := range s.Times {
			if t.B+t.W < t.F {
				return lab.At(errors.New("the times of B and W together are shorter than F: want as long or longer"), "times", strconv.Itoa(i))
			}
		}
		for i, f := range s.Formulas {
			if _, _, err := f.known(pipeline{2, 4}, shown.Values{"p": 2, "m": 4, "v": 1, "f": 1, "b": 1, "w": 1, "work": 3.}); err != nil {
				return lab.At(err, "formulas", strconv.Itoa(i))
			}
		}
		return nil
	},
	Rows: func(s *formulasSpec, _ string) (rows []cells.Row[outcome], err error) {
		for _, f := range s.Formulas {
			for _, c := range s.Cells {
				chunks := 0 // as many as the schedule has
				if f.Schedule == "interleaved" {
					chunks = s.Chunks
				}
				place, err := schedule.Place(f.Schedule, c.P, chunks, c.M)
				if err != nil {
					continue // there is no such schedule of so few micro-batches
				}
				v := place.Stages() / place.Devices
				for _, t := range s.Times {
					of := shown.Values{"schedule": f.Schedule, "p": c.P, "m": c.M, "v": v, "f": t.F, "b": t.B, "w": t.W, "times": t.Name, "work": t.F + t.B + t.W}
					bubble, memory, err := f.known(c, of)
					if err != nil {
						return nil, err
					}
					of["bubble"], of["bubble_known"], of["memory"], of["memory_known"] = bubble, !math.IsNaN(bubble), memory, !math.IsNaN(memory)
					rows = append(rows, cells.Row[outcome]{Has: of, Reads: []cells.Cell[outcome]{{
						Sample: fmt.Sprintf("%s/p=%d/m=%d/%s", f.Schedule, c.P, c.M, t.Name),
						Make:   func(context.Context) (outcome, error) { return s.run(f.Schedule, c, v, t) },
						Values: func(o outcome) shown.Values {
							ran := o.Span - float64(c.M)*(t.F+t.B+t.W)
							if math.Abs(ran) < 1e-9 {
								ran = 0
							}
							return shown.Values{"ran": ran, "peak": o.Peak}
						},
					}}})
				}
			}
		}
		return rows, nil
	},
}

func (s *formulasSpec) run(name string, c pipeline, chunks int, t times) (o outcome, err error) {
	lists, place, err := schedule.Generate(name, c.P, chunks, c.M)
	if err != nil {
		return o, err
	}
	v := float64(chunks)
	of := schedule.Footprint{Residuals: 1 / v, Weights: s.Weights / v}
	made, err := runOn(schedule.Checkpointed(lists, schedule.Never, false), place, c.M, schedule.Alike(schedule.Duration{F: t.F / v, I: t.B / v, W: t.W / v}, 0), of)
	return outcome{made.Span, made.Peak}, err
}
