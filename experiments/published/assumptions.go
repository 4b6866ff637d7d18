package published

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/machine"
)

// assumption is a number of an accelerator's file that has no better source than an assumption.
type assumption struct {
	accelerator string
	name        string // of the field
	scale       func(*accelerator.Accelerator, float64)
}

// numbers are the fields of an accelerator that may be assumed, by their names in its file.
var numbers = []struct {
	name string
	of   func(*accelerator.Accelerator) *float64
}{
	{"overhead", func(a *accelerator.Accelerator) *float64 { return &a.Overhead }},
	{"bandwidth", func(a *accelerator.Accelerator) *float64 { return &a.Bandwidth }},
	{"link", func(a *accelerator.Accelerator) *float64 { return &a.Link.Bandwidth }},
	{"link.latency", func(a *accelerator.Accelerator) *float64 { return &a.Link.Latency }},
	{"far_link", func(a *accelerator.Accelerator) *float64 { return &a.Far.Bandwidth }},
	{"far_link.latency", func(a *accelerator.Accelerator) *float64 { return &a.Far.Latency }},
	{"kernels.cache", func(a *accelerator.Accelerator) *float64 { return &a.Kernels.Cache }},
	{"kernels.start", func(a *accelerator.Accelerator) *float64 { return &a.Kernels.Start }},
	{"kernels.issue", func(a *accelerator.Accelerator) *float64 { return &a.Kernels.Issue }},
}

// assumptions lists what is assumed of the accelerator with a name.
func assumptions(name string) (all []assumption, err error) {
	a, err := accelerator.Named(name)
	if err != nil {
		return nil, err
	}
	const assumed = "assumed"
	for _, n := range numbers {
		if a.Kinds[n.name] == assumed {
			all = append(all, assumption{name, n.name, func(a *accelerator.Accelerator, by float64) {
				if a.Kernels != nil { // which copies of the accelerator share
					own := *a.Kernels
					a.Kernels = &own
				}
				*n.of(a) *= by
			}})
		}
	}
	for i, e := range a.Efficiencies {
		if e.Kind != assumed {
			continue
		}
		all = append(all, assumption{name, "efficiency of " + e.Of, func(a *accelerator.Accelerator, by float64) {
			a.Efficiencies = slices.Clone(a.Efficiencies)
			of := &a.Efficiencies[i]
			of.Points = slices.Clone(of.Points)
			for k := range of.Points {
				of.Points[k].Share = min(1, by*of.Points[k].Share)
			}
		}})
	}
	return all, nil
}

// used are the accelerators that stand for devices of trainings, in order.
func (t *Tables) used(all []*training) (names []string) {
	for _, of := range all {
		name := nearest(t.device(of.rows[0].Device))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// figures is a digest of an accelerator's, which says whether a prediction was made with those of today.
func figures(name string) (string, error) {
	a, err := accelerator.Named(name)
	if err != nil {
		return "", err
	}
	return machine.Digest(fmt.Sprint(a.Figures(), a.Efficient(), a.FP16, a.FP8, a.Far, a.Kernels))[:8], nil
}
