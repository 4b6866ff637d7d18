package rows

import (
	"cmp"
	"slices"
	"strings"

	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Kind is what the operations of layers of one kind take of a step, in seconds.
type Kind struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // mean over the steps
	// Least is what the roofline says that they take at least, and Arithmetic what their products take
	// of it with operands in registers. 0: nothing is known.
	Least      float64 `json:"least"`
	Arithmetic float64 `json:"arithmetic"`
}

func (k *Kind) add(o Kind) {
	k.Seconds, k.Least, k.Arithmetic = k.Seconds+o.Seconds, k.Least+o.Least, k.Arithmetic+o.Arithmetic
}

// AddKind adds operations to those of their kind.
func (s *Sample) AddKind(k Kind) {
	i := slices.IndexFunc(s.Kinds, func(known Kind) bool { return known.Name == k.Name })
	if i < 0 {
		s.Kinds = append(s.Kinds, k)
		return
	}
	s.Kinds[i].add(k)
}

// Roofline says where the time of each network's step goes, and how far from the least it is.
func Roofline(log *records.Log) (*lab.Table, error) {
	t := &lab.Table{ID: "bench-roofline", Title: "Where the time of a step goes", Notes: []string{lab.ProvenanceNote(log)}}
	t.Texts("row", "kind of layer")
	t.Numbers("time", "share", "at least", "time over it")
	t.Texts("bound by")
	for _, name := range log.Names {
		if !strings.HasPrefix(name, "roofline/") {
			continue
		}
		var s Sample
		if err := log.Get(name, &s); err != nil {
			return nil, err
		}
		all, others := Kind{Name: "all"}, Kind{Name: "others"}
		for _, k := range s.Kinds {
			all.add(k)
		}
		add := func(k Kind) {
			least, over, by := lab.Absent, lab.Absent, ""
			if k.Least > 0 {
				least, over, by = lab.Seconds(k.Least), lab.Fixed(k.Seconds/k.Least, 2), "moving data"
				if 2*k.Arithmetic > k.Least {
					by = "arithmetic"
				}
			}
			t.Add(s.What, k.Name, lab.Seconds(k.Seconds), lab.Percent(k.Seconds/all.Seconds, 1), least, over, by)
		}
		slices.SortStableFunc(s.Kinds, func(a, b Kind) int { return -cmp.Compare(a.Seconds, b.Seconds) })
		for _, k := range s.Kinds {
			if k.Seconds < 0.01*all.Seconds {
				others.add(k)
				continue
			}
			add(k)
		}
		add(others)
		add(all)
	}
	return t, nil
}
