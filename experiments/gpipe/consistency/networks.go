package consistency

import (
	"maps"
	"slices"
	"strings"

	"gpipebench/experiments/suite"
)

// covered is what a network's runs have tried, and where they ended.
type covered struct {
	runs, different int
	ks, ms, threads map[int]bool
	schedules       map[string]bool
	checkpoints     map[string]bool
	devices         map[string]bool
	hashes          []string // as they came
}

func newCovered() *covered {
	return &covered{
		ks: map[int]bool{}, ms: map[int]bool{}, threads: map[int]bool{},
		schedules: map[string]bool{}, checkpoints: map[string]bool{}, devices: map[string]bool{},
	}
}

// add counts a run, which ended as the runs that it is compared with or not.
func (c *covered) add(s *record, equal bool) {
	setup := s.Run.Setup()
	c.runs++
	if !equal {
		c.different++
	}
	c.ks[max(s.Run.K, 1)], c.ms[max(s.Run.M, 1)], c.threads[max(s.Run.Threads, 1)] = true, true, true
	c.schedules[setup.Schedule.String()], c.checkpoints[setup.Checkpoint.String()], c.devices[setup.Device.String()] = true, true, true
	if !slices.Contains(c.hashes, s.SHA256[:16]) {
		c.hashes = append(c.hashes, s.SHA256[:16])
	}
}

// networksTable has a line for each network.
func networksTable(title string) *suite.Table {
	t := &suite.Table{ID: "consistency-networks", Title: title}
	t.Texts("network")
	t.Numbers("runs", "that differ", "SHA-256 values")
	t.Texts("K", "M", "schedules", "checkpoints", "devices", "threads", "SHA-256 of the weights")
	return t
}

func (c *covered) addTo(t *suite.Table, network string) {
	t.Add(network, c.runs, c.different, len(c.hashes), numbersIn(c.ks), numbersIn(c.ms),
		namesIn(c.schedules), namesIn(c.checkpoints), namesIn(c.devices), numbersIn(c.threads), strings.Join(c.hashes, ", "))
}

func numbersIn(set map[int]bool) string {
	return suite.JoinWith(slices.Sorted(maps.Keys(set)), ", ")
}

func namesIn(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
