package gpipe

import (
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Times has the times of one step's tasks, in seconds, by stage. A [Result] has those that
// were measured; a program can make others, to replay a step with them.
type Times struct {
	Replicas int                                   // 0: one
	Together int                                   // consecutive replicas that meet within tasks; 0: all
	Stages   []StageTimes                          // of all chunks of all replicas, in the order of their places
	Lists    [][]schedule.Task                     // of all devices
	Examples [][]int                               // of each micro-batch, by replica
	Window   int                                   // mini-batches that the lists have; 0: one
	Boundary func(at place.Place, micro int) int64 // bytes that a place sends forward
	Link     clock.Link
	Hop      func(from, to place.Place) clock.Link // where links differ; nil: Link
	// Placement is where the pieces of the network are; zero: one on each device, in order.
	Placement schedule.Placement
	// Exchanges are the gradients of weights that several stages share.
	Exchanges []clock.Exchange
	// Last are those at the end of the step alone, of gathered rows; nil: none.
	Last func(replica int) []clock.Exchange
}

// StageTimes are the times of one stage's tasks by micro-batch; one that did not happen has
// 0. I and W are nil if no B is in two. Of a device with several chunks each has its own, and
// what is the device's is in the first's.
type StageTimes struct {
	F, R, B, I, W []float64
	// U are the times of updates within the list, by the last micro-batch of each mini-batch; nil
	// if there are none.
	U             []float64
	Setup, Update float64
	// FMeetings and BMeetings are the meetings of replicas within each F and each B or I,
	// which their times are without; nil: none.
	FMeetings, BMeetings [][]clock.Meeting
	// Groups are the times for adding up groups, by the micro-batch at whose end that
	// happens; nil if there is one group. Reduce is the time of adding up all replicas.
	Groups []float64
	// Gather is the time of handing on updated weights.
	Reduce, Gather float64
	// Rows is the time of gathering rows of tied tables' gradients and adding them up.
	Rows float64
}

// perMicro are the times by micro-batch, and perStep those of a step.
func (t *StageTimes) perMicro() []*[]float64 {
	return []*[]float64{&t.F, &t.R, &t.B, &t.I, &t.W, &t.U, &t.Groups}
}

func (t *StageTimes) perStep() []*float64 {
	return []*float64{&t.Setup, &t.Update, &t.Reduce, &t.Gather, &t.Rows}
}

// newTimes has all of a step's Times but those of its stages, for a portion of each replica,
// of which together meet within tasks.
func newTimes(n *plan.Network, portions []plan.Portion, together int) *Times {
	t := &Times{
		Replicas: len(portions), Together: together, Placement: n.OwnPlacement(),
		Link: n.Devices[0].Link, Exchanges: n.Exchanges(),
		Boundary: func(at place.Place, micro int) int64 {
			return portions[at.Replica].Programs[micro].BoundaryBytes(n.Pieces.Piece(at))
		},
	}
	for _, p := range portions {
		t.Lists = append(t.Lists, p.Lists...)
		t.Examples = append(t.Examples, p.Sizes)
	}
	return t
}

func newStageTimes(micro int) *StageTimes {
	return &StageTimes{F: make([]float64, micro), R: make([]float64, micro), B: make([]float64, micro)}
}

// add adds to the time of a kind of event: of a micro-batch, or, if that is negative, of the step.
func (t *StageTimes) add(kind timeline.Kind, micro int, seconds float64) {
	of := [...]struct {
		step  *float64
		micro *[]float64
	}{
		timeline.Forward: {nil, &t.F}, timeline.Recompute: {nil, &t.R}, timeline.Backward: {nil, &t.B},
		timeline.BackwardInput: {nil, &t.I}, timeline.BackwardWeights: {nil, &t.W}, timeline.Update: {&t.Update, &t.U},
		timeline.Setup: {&t.Setup, nil}, timeline.Reduce: {&t.Reduce, &t.Groups}, timeline.Rows: {&t.Rows, nil},
	}[kind]
	if micro < 0 {
		*of.step += seconds
		return
	}
	if *of.micro == nil {
		*of.micro = make([]float64, len(t.F))
	}
	(*of.micro)[micro] += seconds
}

// Task is the time of one task.
func (t *StageTimes) Task(task schedule.Task) float64 {
	switch task.Kind {
	case schedule.Forward:
		return t.F[task.Micro]
	case schedule.Recompute:
		return t.R[task.Micro]
	case schedule.BackwardInput:
		return t.I[task.Micro]
	case schedule.BackwardWeights:
		return t.W[task.Micro]
	case schedule.Update:
		return t.U[task.Micro]
	}
	return t.B[task.Micro]
}

// meet stores the meetings of a task whose own work took a number of seconds.
func (t *StageTimes) meet(kind timeline.Kind, micro int, all []clock.Meeting, seconds float64) {
	if len(all) == 0 {
		return
	}
	of := &t.FMeetings
	if kind == timeline.Backward || kind == timeline.BackwardInput {
		of = &t.BMeetings
	}
	if *of == nil {
		*of = make([][]clock.Meeting, len(t.F))
	}
	for i := range all {
		if seconds > 0 {
			all[i].At /= seconds
		}
	}
	(*of)[micro] = all
}

// Meetings returns a task's meetings.
func (t *StageTimes) Meetings(task schedule.Task) []clock.Meeting {
	of := t.FMeetings
	switch task.Kind {
	case schedule.Recompute, schedule.BackwardWeights:
		of = nil
	case schedule.Backward, schedule.BackwardInput:
		of = t.BMeetings
	}
	if of == nil {
		return nil
	}
	return of[task.Micro]
}

// meetingSeconds is the time of the meetings of all F and B, without waiting.
func (t *StageTimes) meetingSeconds() (forward, backward float64) {
	add := func(of [][]clock.Meeting) (sum float64) {
		for _, all := range of {
			for _, m := range all {
				sum += m.Seconds
			}
		}
		return sum
	}
	return add(t.FMeetings), add(t.BMeetings)
}

// addMeetingLinks adds the time that meetings take on the replicas' links.
func (t *StageTimes) addMeetingLinks(a AllReduce, replicas int) {
	for _, of := range [][][]clock.Meeting{t.FMeetings, t.BMeetings} {
		for _, all := range of {
			for i := range all {
				reduce, gather := a.Seconds(replicas, float64(all[i].Bytes))
				all[i].Seconds += reduce + gather
			}
		}
	}
}

// addLinks adds the time that adding up a device's gradients and statistics takes on the
// replicas' links, and gathering rows. If updates are divided, weights are gathered after
// them instead of gradients before.
func addLinks(n *plan.Network, t *StageTimes, at place.Place, rows []plan.TableRows) {
	t.addMeetingLinks(n.AllReduce.Among(n.Together()), n.Together())
	stage := at.Stage
	if at.Chunk > 0 { // what is the device's is counted with its first chunk
		return
	}
	reduce, gather := n.AllReduce.Seconds(n.Replicas, n.GradientBytes(stage))
	t.Reduce += reduce
	for i := range rows {
		if rows[i].On(stage) {
			_, gather := n.AllReduce.Seconds(n.Replicas, float64(rows[i].Bytes(0, rows[i].Rows)))
			t.Rows += gather
		}
	}
	if n.ShardUpdate {
		t.Gather += gather
	} else {
		t.Reduce += gather
	}
}

// modelMeetings are the meetings of a program on an accelerator, without links.
func modelMeetings(a *accelerator.Accelerator, p *program.Program, dt graph.DType) (all []clock.Meeting) {
	before, bytes := p.Meetings()
	if len(before) == 0 {
		return nil
	}
	seconds := a.Seconds(p, dt)
	for i := range before {
		all = append(all, clock.Meeting{At: min(1, a.Seconds(before[i], dt)/seconds), Bytes: bytes[i]})
	}
	return all
}

// At returns the times of a place's tasks.
func (t *Times) At(p place.Place) *StageTimes {
	return t.places()(p)
}

// places is At for many places.
func (t *Times) places() func(place.Place) *StageTimes {
	pieces := t.placed().Pieces()
	return func(p place.Place) *StageTimes { return &t.Stages[pieces.Index(p)] }
}

// chunks is how many a device has.
func (t *Times) chunks(device int) int {
	return len(t.placed().Chunks()[device])
}

// placed is the placement, also where it is left out.
func (t *Times) placed() schedule.Placement {
	return t.Placement.Or(len(t.Stages) / max(t.Replicas, 1))
}

// Tasks returns the times of all F, R, B, I, W and U.
func (t *Times) Tasks() (all []float64) {
	for _, st := range t.Stages {
		all = slices.Concat(all, st.F, st.R, st.B, st.I, st.W, st.U)
	}
	return all
}

// Costs returns the times in the form that the virtual clock takes.
func (t *Times) Costs() clock.Costs {
	of := t.places()
	c := clock.Costs{
		Task:     func(at place.Place, task schedule.Task) float64 { return of(at).Task(task) },
		Setup:    func(at place.Place) float64 { return of(at).Setup },
		Update:   func(at place.Place) float64 { return of(at).Update },
		Boundary: t.Boundary,
		Link:     t.Link,
		Hop:      t.Hop,

		Placement: t.Placement,
		Replicas:  t.Replicas,
		Together:  t.Together,
		Reduce:    func(at place.Place) float64 { return of(at).Reduce },
		Gather:    func(at place.Place) float64 { return of(at).Gather },

		Rows: func(at place.Place) float64 { return of(at).Rows },

		Exchanges: t.Exchanges, Last: t.Last,
	}
	if schedule.Updates(t.Lists) {
		c.Update = nil
	}
	for i := range t.Stages {
		st := &t.Stages[i]
		if st.Groups != nil {
			c.Group = func(at place.Place, micro int) float64 {
				if groups := of(at).Groups; groups != nil {
					return groups[micro]
				}
				return 0
			}
		}
		if st.FMeetings != nil || st.BMeetings != nil {
			c.Meetings = func(at place.Place, task schedule.Task) []clock.Meeting { return of(at).Meetings(task) }
		}
	}
	return c
}
