package timeline

import (
	"slices"

	"gpipebench/gpipe/place"
)

// Reduction is how a step adds up the gradient of one tensor over replicas, as one place
// sees it: what Horovod's timeline shows of a tensor.
type Reduction struct {
	At       place.Place
	Tensor   string  // the parameter's path
	Gathered bool    // its rows are gathered and then added up; else it is reduced
	Ready    float64 // when the place's gradients were complete, in seconds from the step's start
	// Activities are in order of their starts. Those of tensors that share a message have the
	// same times.
	Activities []Activity
}

// Activity is a part of a Reduction's time.
type Activity struct {
	Kind       ActivityKind
	Peer       int     // the replica from which data come; -1: none
	Start, End float64 // seconds from the step's start
	Bytes      int64   // of the message, which small tensors share
}

// ActivityKind is what a place does with a tensor meanwhile.
type ActivityKind uint8

const (
	WaitForData   ActivityKind = iota // until a peer's message is there
	PackRows                          // copying a dense gradient to rows
	Carry                             // copying a message, and adding what it carries
	SumRows                           // adding up all gathered rows
	activityKinds                     // their number
)

// Horovod's names. Adding up rows is no part of an all-gather there: TensorFlow does it
// later, in the optimiser.
var activityNames = [2][activityKinds]string{
	{WaitForData: "WAIT_FOR_DATA", PackRows: "MEMCPY_IN_FUSION_BUFFER", Carry: "MPI_ALLREDUCE", SumRows: "SUM_ROWS"},
	{WaitForData: "WAIT_FOR_DATA", PackRows: "MEMCPY_IN_FUSION_BUFFER", Carry: "MPI_ALLGATHER", SumRows: "SUM_ROWS"},
}

// queued is the time before a tensor's first activity.
const queued = "QUEUE"

// Operation is what Horovod calls the whole: ALLREDUCE or ALLGATHER.
func (r *Reduction) Operation() string {
	if r.Gathered {
		return "ALLGATHER"
	}
	return "ALLREDUCE"
}

// Phase is an interval of a Reduction, by Horovod's name.
type Phase struct {
	Name       string
	Start, End float64
	Peer       int   // -1: none
	Bytes      int64 // 0: none
}

// Phases are the intervals of a Reduction: first NEGOTIATE_ALLREDUCE, or _ALLGATHER, then
// the operation, then the activities within it. They are disjoint but for the operation.
//
// Nothing is negotiated here, since all places know the order of all messages. What there is
// in its place is the wait for the slowest: from the end of the place's own gradients to the
// end of the last replica's, or to the first data that are there before. Readies are the
// former of all replicas.
func (r *Reduction) Phases(readies []float64) (negotiate, operation Phase, activities []Phase) {
	begin, end := r.Ready, r.Ready
	for _, ready := range readies {
		begin = max(begin, ready)
	}
	for _, a := range r.Activities {
		if a.Kind != WaitForData {
			begin = min(begin, a.Start)
		}
		end = max(end, a.End)
	}
	begin = max(begin, r.Ready)
	end = max(end, begin)
	names := activityNames[0]
	if r.Gathered {
		names = activityNames[1]
	}
	for _, a := range r.Activities {
		from := max(a.Start, begin)
		if a.Kind == WaitForData && a.End <= begin {
			continue
		}
		if len(activities) == 0 && from > begin {
			activities = append(activities, Phase{queued, begin, from, -1, 0})
		}
		activities = append(activities, Phase{names[a.Kind], from, a.End, a.Peer, a.Bytes})
	}
	op := r.Operation()
	return Phase{"NEGOTIATE_" + op, r.Ready, begin, -1, 0}, Phase{op, begin, end, -1, 0}, activities
}

// Ready is when each replica's gradients of a stage were complete.
func (tl *Timeline) Ready(stage int) (all []float64) {
	for replica := range max(tl.Replicas, 1) {
		i := slices.IndexFunc(tl.Reductions, func(r Reduction) bool { return r.At.Replica == replica && r.At.Stage == stage })
		if i >= 0 {
			all = append(all, tl.Reductions[i].Ready)
		}
	}
	return all
}
