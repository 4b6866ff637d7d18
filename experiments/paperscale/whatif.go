package paperscale

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
)

// WhatIfs are changes of accelerators' published figures by name, in the words of a
// table: what the default convention's errors depend on.
var WhatIfs = map[string]func(*accelerator.Accelerator){
	"half the arithmetic rate":                         func(a *accelerator.Accelerator) { a.BF16, a.F32 = a.BF16/2, a.F32/2 },
	"half the memory bandwidth":                        func(a *accelerator.Accelerator) { a.Bandwidth /= 2 },
	"activations not padded to lanes":                  func(a *accelerator.Accelerator) { a.Tiled = false },
	"neither activations nor products padded to lanes": func(a *accelerator.Accelerator) { a.Tiled, a.Lanes = false, 1 },
	"element-wise operations not fused":                func(a *accelerator.Accelerator) { a.Fused = false },
	"element-wise operations fused":                    func(a *accelerator.Accelerator) { a.Fused = true },
	"transfers beside computation":                     BesideComputation,
}

// BesideComputation makes transfers through the host's memory leave both devices
// free, as copying engines may: two legs one after the other on one link.
func BesideComputation(a *accelerator.Accelerator) {
	if a.Link.ThroughHost {
		a.Link.ThroughHost, a.Link.Bandwidth, a.Link.Latency = false, a.Link.Bandwidth/2, 2*a.Link.Latency
	}
}

// CheckWhatIfs refuses names that are not in WhatIfs.
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
