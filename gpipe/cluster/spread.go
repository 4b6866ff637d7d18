package cluster

import (
	"fmt"
	"strings"

	"gpipebench/gpipe/place"
	"gpipebench/internal/failure"
)

// Spread divides the places of R replicas of K stages among processes: each gets
// consecutive places, as evenly as possible.
type Spread struct {
	Replicas, Stages, Processes int
	// ByStage orders places by stage first: processes get the same stages of several
	// replicas rather than several stages of one, as long as there are enough. The sums
	// over replicas then stay within processes, and boundary tensors cross.
	ByStage bool
}

// Validate is an error if a process would have no place.
func (s Spread) Validate() error {
	if s.Processes > s.Replicas*s.Stages {
		return failure.Usagef("%d processes for a pipeline of %d replicas x %d partitions: want at most one process for each partition of each replica", s.Processes, s.Replicas, s.Stages)
	}
	return nil
}

// Owner is the process of a place.
func (s Spread) Owner(p place.Place) int {
	i := p.Replica*s.Stages + p.Stage
	if s.ByStage {
		i = p.Stage*s.Replicas + p.Replica
	}
	return i * s.Processes / (s.Replicas * s.Stages)
}

// Of describes the places of a process: replica 1, stages 2 to 3; replicas 0 to 1.
func (s Spread) Of(rank int) string {
	stages := map[int][]int{} // of each replica
	var replicas []int
	for _, p := range place.Of(s.Replicas, s.Stages) {
		if s.Owner(p) != rank {
			continue
		}
		if stages[p.Replica] == nil {
			replicas = append(replicas, p.Replica)
		}
		stages[p.Replica] = append(stages[p.Replica], p.Stage)
	}
	span := func(name string, ns []int) string {
		first, last := ns[0], ns[len(ns)-1]
		if first == last {
			return fmt.Sprintf("%s %d", name, first)
		}
		return fmt.Sprintf("%ss %d to %d", name, first, last)
	}
	var parts []string
	for i := 0; i < len(replicas); { // those with the same stages together
		j := i + 1
		for j < len(replicas) && fmt.Sprint(stages[replicas[j]]) == fmt.Sprint(stages[replicas[i]]) {
			j++
		}
		var part []string
		if s.Replicas > 1 {
			part = append(part, span("replica", replicas[i:j]))
		}
		if of := stages[replicas[i]]; len(of) < s.Stages || s.Replicas == 1 {
			part = append(part, span("stage", of))
		}
		parts = append(parts, strings.Join(part, ", "))
		i = j
	}
	return strings.Join(parts, "; ")
}
