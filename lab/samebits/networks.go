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

// evaluates reports whether a network is evaluated when it is trained.
func (x *Experiment) evaluates() bool {
	return slices.ContainsFunc(x.Spec.Groups, func(n network) bool { return n.Evaluate })
}

// networksTable has a line for each network; what each run ended with is in the records.
func (x *Experiment) networksTable() *lab.Table {
	t := &lab.Table{ID: x.ID(), Title: x.Title()}
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
	if x.evaluates() {
		t.Numbers("first loss", "last loss", "held-out loss", "floor", "above the floor")
		t.Notes = append(t.Notes, "Losses are in nats per token, and the same in all runs of a network. The floor is the entropy of the synthetic language; no model is expected to reach a lower loss.")
	}
	t.Texts("SHA-256 of the weights")
	return t
}

// row is the network's in the table of an experiment.
func (c *covered) row(x *Experiment, network string) []any {
	cells := []any{network, len(c.runs), c.different, len(c.hashes())}
	if x.grouped() {
		cells = append(cells, c.numbers(func(w Way) int { return w.R }), c.numbers(func(w Way) int { return max(w.G, w.R) }))
	}
	if x.divided() {
		cells = append(cells, slices.Max(tried(c, func(w Way) int { return max(w.Spatial, 1) })))
	}
	cells = append(cells, c.numbers(func(w Way) int { return w.K }), c.numbers(func(w Way) int { return w.M }),
		c.names(func(w Way) string { return w.Setup().Schedule.String() }), c.names(func(w Way) string { return w.Setup().Checkpoint.String() }),
		c.names(func(w Way) string { return w.Setup().Device.String() }), c.numbers(func(w Way) int { return w.Threads }))
	if x.grouped() {
		cells = append(cells, c.names(func(w Way) string { return lab.DividedOrWhole(w.Shard) }))
	}
	if x.evaluates() {
		cells = append(cells, c.runs[0].losses())
	}
	return append(cells, strings.Join(c.hashes(), ", "))
}

// losses are the first, the last and the held-out loss of a run that was evaluated, beside the floor.
func (s *Record) losses() []lab.Value {
	if s.Eval == nil {
		return slices.Repeat([]lab.Value{lab.Absent}, 5)
	}
	return []lab.Value{lab.Fixed(s.Losses[0], 4), lab.Fixed(s.Losses[len(s.Losses)-1], 4), lab.Fixed(s.Eval.Loss, 4), lab.Fixed(s.Floor, 4),
		lab.Number("%+.1f%%", 100*(s.Eval.Loss/s.Floor-1))}
}
