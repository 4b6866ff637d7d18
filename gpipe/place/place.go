// Package place defines the address of work: a copy of the pipeline, a stage of it,
// a piece of that stage. Routes, events, times, plans and messages carry it.
package place

import (
	"cmp"
	"fmt"
)

// Place is where work is done. Replica and Stage name a device; with chunks it holds
// several pieces of the network. With one replica and one chunk a device, stage k is
// Place{Stage: k}. The zero value is the first place.
type Place struct {
	Replica int // a copy of the pipeline with examples of its own
	Stage   int // the device's position in the pipeline
	Chunk   int // which of its pieces of the network
}

// Stage is the place of stage k where there is one replica and one chunk.
func Stage(k int) Place { return Place{Stage: k} }

// Stages are the places of all stages where there is one replica and one chunk.
func Stages(stages int) []Place { return Of(1, stages) }

// Of are the places of all stages of all replicas, with one chunk a device, in order.
func Of(replicas, stages int) []Place {
	all := make([]Place, 0, replicas*stages)
	for r := range replicas {
		for k := range stages {
			all = append(all, Place{Replica: r, Stage: k})
		}
	}
	return all
}

// Compare orders places by replica, stage and chunk.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Replica, q.Replica), cmp.Compare(p.Stage, q.Stage), cmp.Compare(p.Chunk, q.Chunk))
}

// String names the place and leaves out the first replica and the first chunk:
// stage 2; replica 1, stage 2, chunk 1.
func (p Place) String() string {
	s := fmt.Sprintf("stage %d", p.Stage)
	if p.Replica > 0 {
		s = fmt.Sprintf("replica %d, %s", p.Replica, s)
	}
	if p.Chunk > 0 {
		s = fmt.Sprintf("%s, chunk %d", s, p.Chunk)
	}
	return s
}
