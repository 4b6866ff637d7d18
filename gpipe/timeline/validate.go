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
//   - F and B of each stage and micro-batch are there exactly once, and R where
//     it is due, and nowhere else.
//   - Dependencies hold in time: F(k,m) after F(k-1,m), B(k,m) after B(k+1,m) and
//     after the event that made its residuals, R(k,m) after F(k,m) and, if it is
//     late, after B(k+1,m).
//   - Each stage takes up its tasks in the schedule's order: F ascending, B
//     ascending, no other task between R(m) and B(m), and each B after as many F as
//     the schedule runs ahead of it.
//   - A device does one thing at a time.
//   - If crossings are on the timeline, each is there exactly once (or its two
//     legs are), after what makes its data and before what needs it. A transfer
//     of no micro-batch (Micro -1: the gradient of a weight that stages share)
//     may go between any two devices, after the sender's last B.
//   - A device adds up a group (Reduce) right after its last B, and replicas after all
//     of them.
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
	var lastB, update Event
	update.Start = math.Inf(1)
	barrier := false
	for replica, m := range micro {
		v := validator{
			stages: stages, micro: m,
			schedule: s, checkpoint: c, late: late || s == schedule.Naive,
		}
		own := tl.replica(replica)
		for _, check := range []func(*Timeline) error{
			v.parameters, v.collect, v.complete, v.dependencies, v.order, v.crossings, v.overlaps, v.endsOfStep,
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
		case e.Kind == Backward && e.End > lastB.End:
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
	own := &Timeline{Devices: tl.Stages()}
	for _, e := range tl.Events {
		if e.At.Replica == r && (!e.Kind.crosses() || e.Peer.Replica == r) {
			e.At.Replica, e.Peer.Replica = 0, 0
			own.Events = append(own.Events, e)
		}
	}
	return own
}

type validator struct {
	stages, micro int
	schedule      schedule.Schedule
	checkpoint    schedule.Checkpoint
	late          bool

	f, r, b [][]*Event // by stage and micro-batch
}

func (v *validator) parameters(*Timeline) error {
	return schedule.Check(v.schedule, v.stages, max(v.micro, 1), v.checkpoint)
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
	v.f, v.r, v.b = v.table(), v.table(), v.table()
	for i := range tl.Events {
		e := &tl.Events[i]
		if int(e.Kind) >= len(kinds) {
			return fmt.Errorf("event %d of unknown kind %d", i, e.Kind)
		}
		if e.At != place.Stage(e.At.Stage) || e.Peer != place.Stage(e.Peer.Stage) {
			return fmt.Errorf("%s at %v, peer %v: want one replica and one chunk", e.Label(), e.At, e.Peer)
		}
		if e.At.Stage < 0 || e.At.Stage >= v.stages {
			return fmt.Errorf("%s on device %d of %d", e.Label(), e.At.Stage, v.stages)
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
		table := map[Kind][][]*Event{Forward: v.f, Recompute: v.r, Backward: v.b}[e.Kind]
		if other := table[e.At.Stage][e.Micro]; other != nil {
			return fmt.Errorf("%v is there twice: also %v", e, other)
		}
		table[e.At.Stage][e.Micro] = e
	}
	return nil
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

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *validator) dependencies(*Timeline) error {
	for k := range v.stages {
		for m := range v.micro {
			f, r, b := v.f[k][m], v.r[k][m], v.b[k][m]
			err := firstError(follows(b, f), follows(r, f), follows(b, r))
			if k > 0 {
				err = firstError(err, follows(f, v.f[k-1][m]))
			}
			if k < v.stages-1 {
				err = firstError(err, follows(b, v.b[k+1][m]))
				if v.late {
					err = firstError(err, follows(r, v.b[k+1][m]))
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
				err = firstError(follows(f[m], f[m-1]), follows(b[m], b[m-1]), follows(r[m], b[m-1]))
			}
			// B(m), with its R, comes after F(m+ahead), or the last F if there is no
			// such one, and before the F after that.
			turn := m + v.ahead(k)
			err = firstError(err, follows(b[m], f[min(turn, v.micro-1)]), follows(r[m], f[min(turn, v.micro-1)]))
			if turn+1 < v.micro {
				err = firstError(err, follows(f[turn+1], b[m]))
			}
			if err != nil {
				return fmt.Errorf("schedule %v: %w", v.schedule, err)
			}
		}
	}
	return nil
}

// crossings checks the transfers, direct or in two legs, if there are any.
func (v *validator) crossings(tl *Timeline) error {
	type crossing struct {
		to       int
		micro    int
		backward bool
	}
	legs := map[Kind]map[crossing]*Event{Transfer: {}, ToHost: {}, FromHost: {}}
	found := false
	for i := range tl.Events {
		e := &tl.Events[i]
		if !e.Kind.crosses() {
			continue
		}
		from, to := e.At.Stage, e.Peer.Stage
		if e.Kind == FromHost {
			from, to = to, from
		}
		if e.Micro == -1 {
			if to < 0 || to >= v.stages || from < 0 || from >= v.stages || from == to {
				return fmt.Errorf("%v between stages %d and %d of %d: want two different stages", e, from, to, v.stages)
			}
			if err := follows(e, v.b[from][v.micro-1]); err != nil {
				return err
			}
			continue
		}
		found = true
		step := 1
		if e.Backward {
			step = -1
		}
		if to != from+step || min(from, to) < 0 || max(from, to) >= v.stages || e.Micro < 0 || e.Micro >= v.micro {
			return fmt.Errorf("%v between stages %d and %d of %d: want neighbours, activations forward and gradients backward, micro-batches 0 to %d",
				e, from, to, v.stages, v.micro-1)
		}
		c := crossing{to, e.Micro, e.Backward}
		if other := legs[e.Kind][c]; other != nil {
			return fmt.Errorf("%v is there twice: also %v", e, other)
		}
		legs[e.Kind][c] = e
	}
	if !found {
		return nil
	}
	check := func(c crossing, made *Event, needed ...*Event) error {
		direct, out, in := legs[Transfer][c], legs[ToHost][c], legs[FromHost][c]
		if (direct != nil) == (out != nil) || (out != nil) != (in != nil) {
			return fmt.Errorf("the output of %v must reach stage %d in one transfer or in two legs through the host", made, c.to)
		}
		first, last := direct, direct
		if direct == nil {
			first, last = out, in
			if err := follows(in, out); err != nil {
				return err
			}
		}
		if err := follows(first, made); err != nil {
			return err
		}
		for _, n := range needed {
			if err := follows(n, last); err != nil {
				return err
			}
		}
		return nil
	}
	for k := range v.stages - 1 {
		for m := range v.micro {
			lateR := v.r[k][m]
			if !v.late {
				lateR = nil
			}
			if err := firstError(
				check(crossing{k + 1, m, false}, v.f[k][m], v.f[k+1][m]),
				check(crossing{k, m, true}, v.b[k+1][m], v.b[k][m], lateR),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *validator) overlaps(tl *Timeline) error {
	devices := make([][]*Event, v.stages)
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind.OnDevice() {
			devices[e.At.Stage] = append(devices[e.At.Stage], e)
		}
	}
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

// endsOfStep checks what comes before a device's first task and after its last.
func (v *validator) endsOfStep(tl *Timeline) error {
	seen := map[Kind][]*Event{}
	for _, kind := range []Kind{Setup, Barrier, Update} {
		seen[kind] = make([]*Event, v.stages)
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
	for k := range v.stages {
		if v.micro == 0 {
			break
		}
		first, last := v.f[k][0], v.b[k][v.micro-1]
		setup, barrier, update := seen[Setup][k], seen[Barrier][k], seen[Update][k]
		if err := firstError(follows(first, setup), follows(barrier, last), follows(update, last), follows(update, barrier)); err != nil {
			return err
		}
	}
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != Reduce || v.micro == 0 {
			continue
		}
		b, micro := v.b[e.At.Stage], e.Micro
		if micro < 0 {
			micro = v.micro - 1
		}
		if micro >= v.micro {
			return fmt.Errorf("%v: want micro-batches 0 to %d", e, v.micro-1)
		}
		err := follows(e, b[micro])
		if micro+1 < v.micro {
			err = firstError(err, follows(b[micro+1], e))
		}
		if err := firstError(err, follows(seen[Update][e.At.Stage], e)); err != nil {
			return err
		}
	}
	return nil
}
