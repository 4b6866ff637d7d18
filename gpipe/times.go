package gpipe

import (
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Times has the times of one step's tasks, in seconds, by stage. A [Result] has those that
// were measured; a program can make others, to replay a step with them.
type Times struct {
	Replicas int                                   // 0: one
	Stages   []StageTimes                          // of all replicas, in the order of place.Of
	Lists    [][]schedule.Task                     // of all stages
	Examples [][]int                               // of each micro-batch, by replica
	Boundary func(at place.Place, micro int) int64 // bytes that a place sends forward
	Link     timeline.Link
	// Exchanges are the gradients of weights that several stages share.
	Exchanges []timeline.Exchange
}

// StageTimes are the times of one stage's tasks by micro-batch; a recomputation that
// did not happen has 0.
type StageTimes struct {
	F, R, B       []float64
	Setup, Update float64
	// Groups are the times for adding up groups, by the micro-batch at whose end that
	// happens; nil if there is one group. Reduce is that of adding up all replicas.
	Groups []float64
	// Gather is that of handing on updated weights.
	Reduce, Gather float64
}

func newStageTimes(micro int) *StageTimes {
	return &StageTimes{F: make([]float64, micro), R: make([]float64, micro), B: make([]float64, micro)}
}

func (t *StageTimes) add(kind timeline.Kind, micro int, seconds float64) {
	switch kind {
	case timeline.Forward:
		t.F[micro] += seconds
	case timeline.Recompute:
		t.R[micro] += seconds
	case timeline.Backward:
		t.B[micro] += seconds
	case timeline.Setup:
		t.Setup += seconds
	case timeline.Update:
		t.Update += seconds
	case timeline.Reduce:
		if micro < 0 {
			t.Reduce += seconds
			return
		}
		if t.Groups == nil {
			t.Groups = make([]float64, len(t.F))
		}
		t.Groups[micro] += seconds
	}
}

// Task is the time of one task.
func (t *StageTimes) Task(task schedule.Task) float64 {
	switch task.Kind {
	case schedule.Forward:
		return t.F[task.Micro]
	case schedule.Recompute:
		return t.R[task.Micro]
	}
	return t.B[task.Micro]
}

// At returns the times of a place's tasks.
func (t *Times) At(p place.Place) *StageTimes {
	return &t.Stages[p.Replica*(len(t.Stages)/max(t.Replicas, 1))+p.Stage]
}

// Tasks returns the times of all F, R and B.
func (t *Times) Tasks() (all []float64) {
	for _, st := range t.Stages {
		all = slices.Concat(all, st.F, st.R, st.B)
	}
	return all
}

// Costs returns the times in the form that the virtual clock takes.
func (t *Times) Costs() timeline.Costs {
	return timeline.Costs{
		Task:     func(at place.Place, task schedule.Task) float64 { return t.At(at).Task(task) },
		Setup:    func(at place.Place) float64 { return t.At(at).Setup },
		Update:   func(at place.Place) float64 { return t.At(at).Update },
		Boundary: t.Boundary,
		Link:     t.Link,
		Group: func(at place.Place, micro int) float64 {
			if groups := t.At(at).Groups; groups != nil {
				return groups[micro]
			}
			return 0
		},
		Replicas: t.Replicas,
		Reduce:   func(at place.Place) float64 { return t.At(at).Reduce },
		Gather:   func(at place.Place) float64 { return t.At(at).Gather },

		Exchanges: t.Exchanges,
	}
}
