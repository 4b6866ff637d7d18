package samebits

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpipebench/lab"
)

// covered are the runs of a network, and how many ended otherwise than what they are compared with.
type covered struct {
	runs      []*Record
	different int
}

// tried is what the runs have of something, each value once and in ascending order.
func tried[T cmp.Ordered](c *covered, of func(w Way) T) []T {
	all := map[T]bool{}
	for _, r := range c.runs {
		all[of(r.Run)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (c *covered) numbers(of func(w Way) int) string {
	return lab.JoinWith(tried(c, func(w Way) int { return max(of(w), 1) }), ", ")
}

func (c *covered) names(of func(w Way) string) string { return strings.Join(tried(c, of), ", ") }

// hashes are the weights' hashes, as they came.
func (c *covered) hashes() (all []string) {
	for _, r := range c.runs {
		if h := r.SHA256[:16]; !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

// ever reports whether some run of some network is so.
func (x *Experiment) ever(is func(Way) bool) bool {
	return slices.ContainsFunc(x.Spec.Groups, func(n network) bool { return slices.ContainsFunc(n.Ways(), is) })
}

// grouped reports whether a network is run with several groups or replicas.
func (x *Experiment) grouped() bool { return x.ever(Way.grouped) }

// divided reports whether a network is run with its images in parts.
func (x *Experiment) divided() bool { return x.ever(func(w Way) bool { return w.Spatial > 1 }) }

// networksTable has a line for each network.
func (x *Experiment) networksTable() *lab.Table {
	t := &lab.Table{ID: x.ID() + "-networks", Title: x.Title()}
	t.Texts("network")
	t.Numbers("runs", "that differ", "SHA-256 values")
	if x.grouped() {
		t.Texts("R", "G")
	}
	if x.divided() {
		t.Numbers("S, at most")
	}
	t.Texts("K", "M", "schedules", "checkpoints", "devices", "threads")
	if x.grouped() {
		t.Texts("updates")
	}
	t.Texts("SHA-256 of the weights")
	return t
}

func (c *covered) addTo(t *lab.Table, network string, grouped, divided bool) {
	cells := []any{network, len(c.runs), c.different, len(c.hashes())}
	if grouped {
		cells = append(cells, c.numbers(func(w Way) int { return w.R }), c.numbers(func(w Way) int { return max(w.G, w.R) }))
	}
	if divided {
		cells = append(cells, slices.Max(tried(c, func(w Way) int { return max(w.Spatial, 1) })))
	}
	cells = append(cells, c.numbers(func(w Way) int { return w.K }), c.numbers(func(w Way) int { return w.M }),
		c.names(func(w Way) string { return w.Setup().Schedule.String() }), c.names(func(w Way) string { return w.Setup().Checkpoint.String() }),
		c.names(func(w Way) string { return w.Setup().Device.String() }), c.numbers(func(w Way) int { return w.Threads }))
	if grouped {
		cells = append(cells, c.names(func(w Way) string { return map[bool]string{false: "whole", true: "divided"}[w.Shard] }))
	}
	t.Add(append(cells, strings.Join(c.hashes(), ", "))...)
}
