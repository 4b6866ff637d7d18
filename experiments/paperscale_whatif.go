package experiments

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe/accelerator"
)

// What errors hang on: the default convention on accelerators whose figures are
// others than those published.

// whatIfs are the changes by name, in the words of a table.
var whatIfs = map[string]func(*accelerator.Accelerator){
	"half the arithmetic rate":                         func(a *accelerator.Accelerator) { a.BF16, a.F32 = a.BF16/2, a.F32/2 },
	"half the memory bandwidth":                        func(a *accelerator.Accelerator) { a.Bandwidth /= 2 },
	"activations not padded to lanes":                  func(a *accelerator.Accelerator) { a.Tiled = false },
	"neither activations nor products padded to lanes": func(a *accelerator.Accelerator) { a.Tiled, a.Lanes = false, 1 },
	"element-wise operations not fused":                func(a *accelerator.Accelerator) { a.Fused = false },
	"element-wise operations fused":                    func(a *accelerator.Accelerator) { a.Fused = true },
	"transfers beside computation":                     besideComputation,
}

// besideComputation has transfers through the host's memory leave both devices
// free, as copying engines may: two legs one after the other on one link.
func besideComputation(a *accelerator.Accelerator) {
	if a.Link.ThroughHost {
		a.Link.ThroughHost, a.Link.Bandwidth, a.Link.Latency = false, a.Link.Bandwidth/2, 2*a.Link.Latency
	}
}

// checkWhatIfs refuses what is not among them.
func checkWhatIfs(names []string) error {
	for _, name := range names {
		if whatIfs[name] == nil {
			return fmt.Errorf("unknown %q: want %s", name, strings.Join(slices.Sorted(maps.Keys(whatIfs)), ", "))
		}
	}
	return nil
}

// standard is a table's networks under the default convention alone.
func (s *paperScale) standard() *paperScale {
	c := s.Conventions
	out := &paperScale{K: s.K, M: s.M, Base: s.Base, Conventions: conventionsSpec{c.Cuts[:1], c.Splits[:1], c.Recompute[:1], c.Batches[:1], c.Most}}
	for _, n := range s.Networks {
		alone := *n
		alone.Splits = n.Splits[:1]
		out.Networks = append(out.Networks, &alone)
	}
	return out
}

// what is the part of a table that a what-if needs: the default convention, the
// largest M and the base's. Its networks' samples have names of their own.
func (s *paperScale) what(name string) *paperScale {
	out := s.standard()
	out.M = []int{s.Base.M}
	if last := s.M[len(s.M)-1]; last != s.Base.M {
		out.M = append(out.M, last)
	}
	for _, n := range out.Networks {
		n.ID += "/" + name
		n.change = whatIfs[name]
	}
	return out
}

// whatIfTable holds the goals against what-ifs.
func whatIfTable(log *Log, id string, names []string, goals []scaleGoal) (*Table, error) {
	t := &Table{
		ID: id, Title: "Tables 2 and 3, modelled: what the default convention's errors hang on",
		Caption: []string{"Mean absolute error at the largest M, and in brackets the cells of the largest K, were the accelerators others than published. A roofline lets every product run at the published peak, which none does in practice; these rows say how much hangs on that, and nothing was fitted by them."},
		Columns: []Column{{"accelerators", true}},
	}
	for _, g := range goals {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("%s (reach: %.0f%%)", g.name, g.percent)})
	}
	for _, name := range append([]string{""}, names...) {
		row := []string{name}
		if name == "" {
			row[0] = "as published"
		}
		for _, g := range goals {
			scale, networks := g.of, g.networks
			if name != "" {
				scale, networks = g.of.what(name), nil
				for i, n := range scale.Networks {
					if slices.Contains(g.networks, g.of.Networks[i]) {
						networks = append(networks, n)
					}
				}
			}
			var sum float64
			var largest []string
			for _, n := range networks {
				v := scale.conventions(n)[0]
				e, err := scale.errors(log, n, v)
				if err != nil {
					return nil, err
				}
				sum += e.last / float64(len(networks))
				x, err := scale.throughput(log, n, v, cell{scale.K[len(scale.K)-1], scale.M[len(scale.M)-1]}, false)
				if err != nil {
					return nil, err
				}
				largest = append(largest, fmt.Sprintf("%.2f", x))
			}
			row = append(row, fmt.Sprintf("%s [%s]", percent(sum), strings.Join(largest, ", ")))
		}
		t.Add(row...)
	}
	paper := []string{"the paper"}
	for _, g := range goals {
		var largest []string
		for _, n := range g.networks {
			largest = append(largest, n.paper(cell{g.of.K[len(g.of.K)-1], g.of.M[len(g.of.M)-1]}).Value.Text)
		}
		paper = append(paper, fmt.Sprintf("[%s]", strings.Join(largest, ", ")))
	}
	t.Add(paper...)
	return t, nil
}
