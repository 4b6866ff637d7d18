package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// Validate checks that work is conserved on a step's timeline. It knows the
// events and the definition of the schedule, not the lists that were run nor
// how: it takes the same arguments as schedule.Build and none of its results.
//
//   - F and B of each stage and micro-batch are there exactly once, or I and W instead of
//     B, and R where it is due, and nowhere else. With several chunks on a device
//     (Timeline.Placement), stages are the pieces of the network.
//   - Dependencies hold in time: F(k,m) after F(k-1,m), B(k,m) after B(k+1,m) and
//     after the event that made its residuals, R(k,m) after F(k,m) and, if it is
//     late, after B(k+1,m); W(k,m) after I(k,m), which is as B in all else.
//   - Each stage takes up its tasks in the schedule's order: F ascending, B
//     ascending, no other task between R(m) and B(m), and each B after as many F as
//     the schedule runs ahead of it. (Of schedules with chunks, or that split B, that
//     number is not checked; W is ascending too.)
//   - A device does one thing at a time.
//   - If crossings are on the timeline, each is there exactly once (or its two
//     legs are), after what makes its data and before what needs it. A transfer
//     of no micro-batch (Micro -1: the gradient of a weight that stages share)
//     may go between any two devices, after the sender's last B, or after the last B
//     of a group and before the receiver adds up that group.
//   - A device adds up a group (Reduce) right after its last B, and replicas, and rows of
//     tied tables (Rows), after all of them. It meets other replicas (Meet) within an F or B of the same micro-batch,
//     one time after another, and only there it is away.
//   - Setup comes before a device's tasks, Barrier and Update after them, each at
//     most once a device; after a barrier, no device updates before the last B of
//     all ("gradients are applied only at the end of each mini-batch").
//
// An event may start at the very instant at which another ends.
func Validate(tl *Timeline, s schedule.Schedule, stages, micro int, c schedule.Checkpoint, late bool) error {
	return ValidateReplicas(tl, s, stages, []int{micro}, c, late)
}

// ValidateReplicas is Validate for several replicas, with the number of micro-batches
// of each. Each replica is checked by itself, and then that none updates before the
// last B of all.
func ValidateReplicas(tl *Timeline, s schedule.Schedule, stages int, micro []int, c schedule.Checkpoint, late bool) error {
	if len(micro) != max(tl.Replicas, 1) || tl.Devices != len(micro)*stages {
		return fmt.Errorf("timeline: %d devices, want one for each of %d stages of %d replicas", tl.Devices, stages, len(micro))
	}
	for _, e := range tl.Events {
		if e.At.Replica < 0 || e.At.Replica >= len(micro) {
			return fmt.Errorf("timeline: %v: want replicas 0 to %d", e, len(micro)-1)
		}
	}
	if err := tl.validateReductions(); err != nil {
		return err
	}
	var lastB, update Event
	update.Start = math.Inf(1)
	barrier := false
	for replica, m := range micro {
		v := validator{
			stages: tl.Pieces().Len(), pieces: tl.Pieces(), micro: m,
			schedule: s, checkpoint: c, late: late || s == schedule.Naive,
		}
		own := tl.replica(replica)
		for _, check := range []func(*Timeline) error{
			v.parameters, v.collect, v.complete, v.dependencies, v.order, v.crossings, v.overlaps, v.meetings, v.endsOfStep,
		} {
			if err := check(own); err != nil {
				if replica > 0 {
					err = fmt.Errorf("replica %d: %w", replica, err)
				}
				return fmt.Errorf("timeline: %w", err)
			}
		}
	}
	for _, e := range tl.Events {
		switch {
		case (e.Kind == Backward || e.Kind == BackwardWeights) && e.End > lastB.End:
			lastB = e
		case e.Kind == Update && e.Start < update.Start:
			update = e
		case e.Kind == Barrier:
			barrier = true
		}
	}
	if barrier && update.Start < lastB.End {
		return fmt.Errorf("timeline: after a barrier, %v starts before the end of %v", update, lastB)
	}
	return nil
}

// replica is the timeline of one replica by itself.
func (tl *Timeline) replica(r int) *Timeline {
	if tl.Replicas <= 1 {
		return tl
	}
	own := &Timeline{Devices: tl.Stages(), Placement: tl.Placement}
	for _, e := range tl.Events {
		if e.At.Replica == r && (!e.Kind.Crosses() || e.Peer.Replica == r) {
			e.At.Replica, e.Peer.Replica = 0, 0
			own.Events = append(own.Events, e)
		}
	}
	return own
}

type validator struct {
	pieces        place.Pieces
	stages, micro int // pieces of the network, micro-batches
	schedule      schedule.Schedule
	checkpoint    schedule.Checkpoint
	late          bool

	f, r, b, w [][]*Event // by stage and micro-batch; b has I as well
}

func (v *validator) parameters(*Timeline) error {
	return schedule.Check(v.schedule, v.pieces.Devices(), max(v.micro, 1), v.checkpoint)
}

func (v *validator) table() [][]*Event {
	t := make([][]*Event, v.stages)
	for k := range t {
		t[k] = make([]*Event, v.micro)
	}
	return t
}

// collect enters the tasks in the tables and checks each event by itself.
func (v *validator) collect(tl *Timeline) error {
	v.f, v.r, v.b, v.w = v.table(), v.table(), v.table(), v.table()
	tables := map[Kind][][]*Event{Forward: v.f, Recompute: v.r, Backward: v.b, BackwardInput: v.b, BackwardWeights: v.w}
	for i := range tl.Events {
		e := &tl.Events[i]
		if int(e.Kind) >= len(kinds) {
			return fmt.Errorf("event %d of unknown kind %d", i, e.Kind)
		}
		if e.At.Replica != 0 || e.Peer.Replica != 0 {
			return fmt.Errorf("%s at %v, peer %v: want one replica", e.Label(), e.At, e.Peer)
		}
		if e.At.Stage < 0 || e.At.Stage >= v.pieces.Devices() {
			return fmt.Errorf("%s on device %d of %d", e.Label(), e.At.Stage, v.pieces.Devices())
		}
		if !v.exists(e.At) {
			return fmt.Errorf("%s at %v: want one of its %d chunks", e.Label(), e.At, len(v.pieces.On(e.At.Stage)))
		}
		if !(e.Start >= 0 && e.Start <= e.End) || math.IsInf(e.End, 1) {
			return fmt.Errorf("%v: want 0 <= start <= end", e)
		}
		if !e.Kind.Task() {
			continue
		}
		if e.Micro < 0 || e.Micro >= v.micro {
			return fmt.Errorf("%v: want micro-batches 0 to %d", e, v.micro-1)
		}
		table, k := tables[e.Kind], v.pieces.Piece(e.At)
		if other := table[k][e.Micro]; other != nil {
			return fmt.Errorf("%v is there twice: also %v", e, other)
		}
		table[k][e.Micro] = e
	}
	return nil
}

// exists reports whether there is such a place.
func (v *validator) exists(at place.Place) bool {
	return at.Stage >= 0 && at.Stage < v.pieces.Devices() && at.Chunk >= 0 && at.Chunk < len(v.pieces.On(at.Stage))
}

func (v *validator) recomputes(m int) bool {
	switch v.checkpoint {
	case schedule.Never:
		return false
	case schedule.ExceptLast:
		return m > 0
	}
	return true
}

func (v *validator) complete(*Timeline) error {
	for k := range v.stages {
		for m := range v.micro {
			switch {
			case v.f[k][m] == nil:
				return fmt.Errorf("no F%d on stage %d", m, k)
			case v.b[k][m] == nil:
				return fmt.Errorf("no B%d on stage %d", m, k)
			case (v.w[k][m] != nil) != (v.b[k][m].Kind == BackwardInput):
				return fmt.Errorf("%v: want B, or I and W", v.b[k][m])
			case v.r[k][m] == nil && v.recomputes(m):
				return fmt.Errorf("no R%d on stage %d, with checkpoint mode %v", m, k, v.checkpoint)
			case v.r[k][m] != nil && !v.recomputes(m):
				return fmt.Errorf("%v, with checkpoint mode %v", v.r[k][m], v.checkpoint)
			}
		}
	}
	return nil
}

// follows is an error if a starts before b ends, else nil. Either may be missing (nil).
func follows(a, b *Event) error {
	if a != nil && b != nil && a.Start < b.End {
		return fmt.Errorf("%v starts before the end of %v", a, b)
	}
	return nil
}

func (v *validator) dependencies(*Timeline) error {
	for k := range v.stages {
		for m := range v.micro {
			f, r, b := v.f[k][m], v.r[k][m], v.b[k][m]
			err := cmp.Or(follows(b, f), follows(r, f), follows(b, r), follows(v.w[k][m], b))
			if k > 0 {
				err = cmp.Or(err, follows(f, v.f[k-1][m]))
			}
			if k < v.stages-1 {
				err = cmp.Or(err, follows(b, v.b[k+1][m]))
				if v.late {
					err = cmp.Or(err, follows(r, v.b[k+1][m]))
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ahead is how many F of later micro-batches stage k runs before it turns to a
// micro-batch's backward.
func (v *validator) ahead(k int) int {
	switch v.schedule {
	case schedule.Naive:
		return 0 // the next one starts when this one is finished
	case schedule.OneFOneB:
		return v.stages - 1 - k // as many as there are later stages
	}
	return v.micro // all
}

func (v *validator) order(*Timeline) error {
	for k := range v.stages {
		f, r, b := v.f[k], v.r[k], v.b[k]
		for m := range v.micro {
			var err error
			if m > 0 {
				err = cmp.Or(follows(f[m], f[m-1]), follows(b[m], b[m-1]), follows(r[m], b[m-1]), follows(v.w[k][m], v.w[k][m-1]))
			}
			if !v.schedule.Straight() {
				if err != nil {
					return fmt.Errorf("schedule %v: %w", v.schedule, err)
				}
				continue
			}
			// B(m), with its R, comes after F(m+ahead), or the last F if there is no
			// such one, and before the F after that.
			turn := m + v.ahead(k)
			err = cmp.Or(err, follows(b[m], f[min(turn, v.micro-1)]), follows(r[m], f[min(turn, v.micro-1)]))
			if turn+1 < v.micro {
				err = cmp.Or(err, follows(f[turn+1], b[m]))
			}
			if err != nil {
				return fmt.Errorf("schedule %v: %w", v.schedule, err)
			}
		}
	}
	return nil
}

// added is the last event, of a device's chunks, that adds to the gradients for a
// micro-batch: B or W.
func (v *validator) added(device, micro int) (last *Event) {
	for _, k := range v.pieces.On(device) {
		e := v.b[k][micro]
		if w := v.w[k][micro]; w != nil {
			e = w
		}
		if last == nil || e.End > last.End {
			last = e
		}
	}
	return last
}

// first is the first of a device's events of a table for a micro-batch.
func (v *validator) first(table [][]*Event, device, micro int) (first *Event) {
	for _, k := range v.pieces.On(device) {
		if e := table[k][micro]; first == nil || e != nil && e.Start < first.Start {
			first = e
		}
	}
	return first
}

func (v *validator) overlaps(tl *Timeline) error {
	devices := make([][]*Event, v.pieces.Devices())
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind.OnDevice() && e.Kind != Meet {
			devices[e.At.Stage] = append(devices[e.At.Stage], e)
		}
	}
	return apart(devices)
}

// apart is an error if two events of a device overlap.
func apart(devices [][]*Event) error {
	for _, events := range devices {
		slices.SortFunc(events, func(a, b *Event) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		for i, e := range events {
			if i > 0 && e.Start < events[i-1].End {
				return fmt.Errorf("%v and %v overlap", events[i-1], e)
			}
		}
	}
	return nil
}

// meetings checks that replicas meet within tasks. A task may be away a little longer
// than its meetings take, by waiting.
func (v *validator) meetings(tl *Timeline) error {
	devices := make([][]*Event, v.pieces.Devices())
	met := map[*Event]float64{} // by task
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != Meet {
			continue
		}
		devices[e.At.Stage] = append(devices[e.At.Stage], e)
		if e.Micro < 0 || e.Micro >= v.micro {
			return fmt.Errorf("%v: want micro-batches 0 to %d", e, v.micro-1)
		}
		within := func(task *Event) bool { return task.Start <= e.Start && e.End <= task.End }
		k := v.pieces.Piece(e.At)
		switch f, b := v.f[k][e.Micro], v.b[k][e.Micro]; {
		case within(f):
			met[f] += e.Seconds()
		case within(b):
			met[b] += e.Seconds()
		default:
			return fmt.Errorf("%v is not within F%d or B%d of its device", e, e.Micro, e.Micro)
		}
	}
	const rounding = 1e-9 // seconds
	for i := range tl.Events {
		e := &tl.Events[i]
		seconds, meets := met[e]
		if !(e.Away >= 0) || e.Away > 0 && !meets || e.Away < seconds-rounding || e.Away > e.Seconds()+rounding {
			return fmt.Errorf("%v is away for %v s and meets for %v s: want as long or longer, within its length", e, e.Away, seconds)
		}
	}
	return apart(devices)
}

// endsOfStep checks what comes before a device's first task and after its last.
func (v *validator) endsOfStep(tl *Timeline) error {
	seen := map[Kind][]*Event{}
	for _, kind := range []Kind{Setup, Barrier, Update} {
		seen[kind] = make([]*Event, v.pieces.Devices())
	}
	for i := range tl.Events {
		e := &tl.Events[i]
		of := seen[e.Kind]
		if of == nil {
			continue
		}
		if of[e.At.Stage] != nil {
			return fmt.Errorf("%v is there twice: also %v", e, of[e.At.Stage])
		}
		of[e.At.Stage] = e
	}
	for k := range v.pieces.Devices() {
		if v.micro == 0 {
			break
		}
		first, last := v.first(v.f, k, 0), v.added(k, v.micro-1)
		setup, barrier, update := seen[Setup][k], seen[Barrier][k], seen[Update][k]
		if err := cmp.Or(follows(first, setup), follows(barrier, last), follows(update, last), follows(update, barrier)); err != nil {
			return err
		}
	}
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != Reduce && e.Kind != Rows || v.micro == 0 {
			continue
		}
		k, micro := e.At.Stage, e.Micro
		if micro < 0 {
			micro = v.micro - 1
		}
		if micro >= v.micro {
			return fmt.Errorf("%v: want micro-batches 0 to %d", e, v.micro-1)
		}
		err := follows(e, v.added(k, micro))
		if micro+1 < v.micro {
			next := v.first(v.b, k, micro+1)
			if next.Kind == BackwardInput {
				next = v.first(v.w, k, micro+1)
			}
			err = cmp.Or(err, follows(next, e))
		}
		if err := cmp.Or(err, follows(seen[Update][e.At.Stage], e)); err != nil {
			return err
		}
	}
	return nil
}
