package accelerator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Variation is a change of what a model of accelerators assumes, with a name in the words
// of a table.
type Variation struct {
	Name   string
	Change func(*Accelerator)
}

// AtPeak makes everything run at its peak.
func AtPeak(a *Accelerator) { a.Efficiencies = nil }

// Then makes one change after another; nil is none.
func Then(first, second func(*Accelerator)) func(*Accelerator) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a *Accelerator) { first(a); second(a) }
}

// variations are those without a published band.
var variations = map[string]func(*Accelerator){
	"half the arithmetic rate":                         func(a *Accelerator) { a.BF16, a.F32 = a.BF16/2, a.F32/2 },
	"half the memory bandwidth":                        func(a *Accelerator) { a.Bandwidth /= 2 },
	"activations not padded to lanes":                  func(a *Accelerator) { a.Tiled = false },
	"neither activations nor products padded to lanes": func(a *Accelerator) { a.Tiled, a.Lanes = false, 1 },
	"element-wise operations not fused":                func(a *Accelerator) { a.Fused = false },
	"element-wise operations fused":                    func(a *Accelerator) { a.Fused = true },
	"transfers beside computation":                     besideComputation,
	"links at 30% of their bandwidth":                  func(a *Accelerator) { a.useLink(0.3) },
	"links at all of their bandwidth":                  func(a *Accelerator) { a.useLink(1) },
}

// useLink sets the share of the link's bandwidth that is reached.
func (a *Accelerator) useLink(share float64) {
	a.Efficiencies = slices.DeleteFunc(slices.Clone(a.Efficiencies), func(e Efficiency) bool { return e.Of == Link })
	a.Efficiencies = append(a.Efficiencies, Efficiency{Of: Link, Points: []Point{{0, share, share, share}}})
}

// besideComputation makes transfers through the host's memory leave both devices
// free, as copying engines may: two legs one after the other on one link.
func besideComputation(a *Accelerator) {
	if a.Link.ThroughHost {
		a.Link.ThroughHost, a.Link.Bandwidth, a.Link.Latency = false, a.Link.Bandwidth/2, 2*a.Link.Latency
	}
}

// ParseVariation finds a variation without a published band by its name.
func ParseVariation(name string) (Variation, error) {
	change := variations[name]
	if change == nil {
		return Variation{}, fmt.Errorf("unknown %q: want %s", name, strings.Join(slices.Sorted(maps.Keys(variations)), ", "))
	}
	return Variation{name, change}, nil
}

// Band is a published band of an efficiency: its two ends, and its name.
type Band struct {
	Name      string     // such as dense, f32
	Low, High *Variation // nil: the end is what the efficiency already is
}

// Bands returns the bands of all efficiencies. At an end of one, all its sizes are at that end and
// everything else stays.
func (a *Accelerator) Bands() (bands []Band) {
	for i, e := range a.Efficiencies {
		b := Band{Name: e.Of}
		if e.DType != "" {
			b.Name += ", " + e.DType
		}
		end := func(name string, of func(Point) float64) *Variation {
			if !slices.ContainsFunc(e.Points, func(p Point) bool { return of(p) != p.Share }) {
				return nil
			}
			return &Variation{b.Name + ", " + name, func(a *Accelerator) {
				a.Efficiencies = slices.Clone(a.Efficiencies)
				changed := &a.Efficiencies[i]
				changed.Points = slices.Clone(changed.Points)
				for j := range changed.Points {
					changed.Points[j].Share = of(changed.Points[j])
				}
			}}
		}
		b.Low = end("low", func(p Point) float64 { return p.Low })
		b.High = end("high", func(p Point) float64 { return p.High })
		if b.Low != nil || b.High != nil {
			bands = append(bands, b)
		}
	}
	return bands
}
