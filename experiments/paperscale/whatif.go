package paperscale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/gpipe/accelerator"
)

// What errors hang on: the default convention on accelerators whose figures are
// others than those published.

// WhatIfs are the changes by name, in the words of a table.
var WhatIfs = map[string]func(*accelerator.Accelerator){
	"half the arithmetic rate":                         func(a *accelerator.Accelerator) { a.BF16, a.F32 = a.BF16/2, a.F32/2 },
	"half the memory bandwidth":                        func(a *accelerator.Accelerator) { a.Bandwidth /= 2 },
	"activations not padded to lanes":                  func(a *accelerator.Accelerator) { a.Tiled = false },
	"neither activations nor products padded to lanes": func(a *accelerator.Accelerator) { a.Tiled, a.Lanes = false, 1 },
	"element-wise operations not fused":                func(a *accelerator.Accelerator) { a.Fused = false },
	"element-wise operations fused":                    func(a *accelerator.Accelerator) { a.Fused = true },
	"transfers beside computation":                     BesideComputation,
}

// BesideComputation has transfers through the host's memory leave both devices
// free, as copying engines may: two legs one after the other on one link.
func BesideComputation(a *accelerator.Accelerator) {
	if a.Link.ThroughHost {
		a.Link.ThroughHost, a.Link.Bandwidth, a.Link.Latency = false, a.Link.Bandwidth/2, 2*a.Link.Latency
	}
}

// CheckWhatIfs refuses what is not among them.
func CheckWhatIfs(names []string) error {
	for _, name := range names {
		if WhatIfs[name] == nil {
			return fmt.Errorf("unknown %q: want %s", name, strings.Join(slices.Sorted(maps.Keys(WhatIfs)), ", "))
		}
	}
	return nil
}

// Standard is a table's networks under the default convention alone.
func (s *Scale) Standard() *Scale {
	c := s.Conventions
	out := &Scale{Grid: s.Grid, Conventions: ConventionsSpec{c.Cuts[:1], c.Splits[:1], c.Recompute[:1], c.Batches[:1], c.Most}}
	for _, n := range s.Networks {
		alone := *n
		alone.Splits = n.Splits[:1]
		out.Networks = append(out.Networks, &alone)
	}
	return out
}

// What is the part of a table that a what-if needs: the default convention, the
// largest M and the base's. Its networks' samples have names of their own.
func (s *Scale) What(name string) *Scale {
	out := s.Standard()
	out.M = []int{s.Base.M}
	if last := s.M[len(s.M)-1]; last != s.Base.M {
		out.M = append(out.M, last)
	}
	for _, n := range out.Networks {
		n.ID += "/" + name
		n.Change = WhatIfs[name]
	}
	return out
}

// WhatIfTable holds the goals against what-ifs.
func WhatIfTable(log *records.Log, id string, names []string, goals []Goal) (*suite.Table, error) {
	t := &suite.Table{
		ID: id, Title: "Tables 2 and 3, modelled: what the default convention's errors hang on",
		Caption: []string{"Mean absolute error at the largest M, and in brackets the cells of the largest K, were the accelerators others than published. A roofline lets every product run at the published peak, which none does in practice; these rows say how much hangs on that, and nothing was fitted by them."},
	}
	t.Texts("accelerators")
	for _, g := range goals {
		t.Numbers(fmt.Sprintf("%s (reach: %.0f%%)", g.Name, g.Percent))
	}
	for _, name := range append([]string{""}, names...) {
		row := []any{cmp.Or(name, "as published")}
		for _, g := range goals {
			scale, networks := g.Of, g.Networks
			if name != "" {
				scale, networks = g.Of.What(name), nil
				for i, n := range scale.Networks {
					if slices.Contains(g.Networks, g.Of.Networks[i]) {
						networks = append(networks, n)
					}
				}
			}
			var sum float64
			var largest []any
			for _, n := range networks {
				v := scale.ConventionsOf(n)[0]
				e, err := scale.Errors(log, n, v)
				if err != nil {
					return nil, err
				}
				sum += e.Last / float64(len(networks))
				x, err := scale.Throughput(log, n, v, suite.Cell{K: scale.K[len(scale.K)-1], M: scale.M[len(scale.M)-1]}, false)
				if err != nil {
					return nil, err
				}
				largest = append(largest, suite.Fixed(x, 2))
			}
			row = append(row, suite.Joined("%v [%v]", suite.Percent(sum, 1), suite.List(", ", largest...)))
		}
		t.Add(row...)
	}
	paper := []any{"the paper"}
	for _, g := range goals {
		var largest []any
		for _, n := range g.Networks {
			largest = append(largest, n.Paper.Of(suite.Cell{K: g.Of.K[len(g.Of.K)-1], M: g.Of.M[len(g.Of.M)-1]}).Value)
		}
		paper = append(paper, suite.Joined("[%v]", suite.List(", ", largest...)))
	}
	t.Add(paper...)
	return t, nil
}
