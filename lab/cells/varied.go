package cells

import "gpipebench/gpipe/accelerator"

// AtPeak is the variation whose samples have the names of those that none is of: their
// names do not say which efficiencies.
var AtPeak = accelerator.Variation{Change: accelerator.AtPeak}

// Varied is a table's networks on accelerators of which something else is assumed. The
// samples of a variation with a name have names of their own.
func (s *Scale) Varied(v accelerator.Variation) *Scale {
	out := *s
	out.Networks = nil
	for _, n := range s.Networks {
		changed := *n
		changed.Change = accelerator.Then(n.Change, v.Change)
		if v.Name != "" {
			changed.ID += "/" + v.Name
		}
		out.Networks = append(out.Networks, &changed)
	}
	return &out
}

// Standard is a table's networks under the default convention alone.
func (s *Scale) Standard() *Scale {
	out, c := *s, s.Conventions
	out.Conventions = ConventionsSpec{c.Cuts[:1], c.Splits[:1], c.Recompute[:1], c.Batches[:1], c.Most}
	out.Networks = nil
	for _, n := range s.Networks {
		alone := *n
		alone.Splits = n.Splits[:1]
		out.Networks = append(out.Networks, &alone)
	}
	return &out
}
