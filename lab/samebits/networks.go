package samebits

import (
	"maps"
	"slices"
	"strings"

	"gpipebench/lab"
)

// covered is what a network's runs have tried, and where they ended.
type covered struct {
	runs, different int
	rs, gs          map[int]bool
	ks, ms, threads map[int]bool
	parts           map[int]bool
	schedules       map[string]bool
	checkpoints     map[string]bool
	devices         map[string]bool
	updates         map[string]bool
	hashes          []string // as they came
}

func newCovered() *covered {
	return &covered{
		rs: map[int]bool{}, gs: map[int]bool{}, ks: map[int]bool{}, ms: map[int]bool{}, threads: map[int]bool{}, parts: map[int]bool{},
		schedules: map[string]bool{}, checkpoints: map[string]bool{}, devices: map[string]bool{}, updates: map[string]bool{},
	}
}

// add counts a run, which ended as the runs that it is compared with or not.
func (c *covered) add(s *Record, equal bool) {
	setup := s.Run.Setup()
	c.runs++
	if !equal {
		c.different++
	}
	c.rs[max(s.Run.R, 1)], c.gs[max(s.Run.G, s.Run.R, 1)] = true, true
	c.ks[max(s.Run.K, 1)], c.ms[max(s.Run.M, 1)], c.threads[max(s.Run.Threads, 1)] = true, true, true
	c.schedules[setup.Schedule.String()], c.checkpoints[setup.Checkpoint.String()], c.devices[setup.Device.String()] = true, true, true
	c.parts[max(s.Run.Spatial, 1)] = true
	c.updates[map[bool]string{false: "whole", true: "divided"}[s.Run.Shard]] = true
	if !slices.Contains(c.hashes, s.SHA256[:16]) {
		c.hashes = append(c.hashes, s.SHA256[:16])
	}
}

// grouped reports whether a network is run with several groups or replicas.
func (x *Experiment) grouped() bool {
	return slices.ContainsFunc(x.Spec.Groups, func(n network) bool { return slices.ContainsFunc(n.Ways(), Way.grouped) })
}

// divided reports whether a network is run with its images in parts.
func (x *Experiment) divided() bool {
	return slices.ContainsFunc(x.Spec.Groups, func(n network) bool {
		return slices.ContainsFunc(n.Ways(), func(w Way) bool { return w.Spatial > 1 })
	})
}

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
	cells := []any{network, c.runs, c.different, len(c.hashes)}
	if grouped {
		cells = append(cells, numbersIn(c.rs), numbersIn(c.gs))
	}
	if divided {
		cells = append(cells, slices.Max(slices.Collect(maps.Keys(c.parts))))
	}
	cells = append(cells, numbersIn(c.ks), numbersIn(c.ms), namesIn(c.schedules), namesIn(c.checkpoints), namesIn(c.devices), numbersIn(c.threads))
	if grouped {
		cells = append(cells, namesIn(c.updates))
	}
	t.Add(append(cells, strings.Join(c.hashes, ", "))...)
}

func numbersIn(set map[int]bool) string {
	return lab.JoinWith(slices.Sorted(maps.Keys(set)), ", ")
}

func namesIn(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
