package clock

import (
	"container/heap"
	"fmt"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// meeting is where a stage's replicas wait for each other within a task. They have the
// same lists, so a stage is at one meeting at a time.
type meeting struct {
	replicas int // that take part
	here     []participant
	longest  float64
}

// participant is a replica that has come.
type participant struct {
	replica *replica
	event   timeline.Event // of its meeting
	goOn    func()
}

// perform runs a task on its device: at once, or in pieces between its meetings.
func (r *replica) perform(t schedule.Task, k int, then func()) error {
	e, seconds := timeline.Event{At: r.taskAt(k, t), Kind: timeline.KindOf(t), Micro: t.Micro}, r.costs.Task(r.taskAt(k, t), t)
	var meetings []Meeting
	if r.costs.Meetings != nil {
		meetings = r.costs.Meetings(r.taskAt(k, t), t)
	}
	if len(meetings) == 0 {
		return r.occupy(e, seconds, then)
	}
	before := 0.0
	for _, m := range meetings {
		if !(m.At >= before && m.At <= 1) || !duration(m.Seconds) {
			return fmt.Errorf("clock: stage %d: %s meets at %v of it for %v seconds: want parts from 0 to 1 in order, and finite times", k, e.Name(), m.At, m.Seconds)
		}
		before = m.At
	}
	if !duration(seconds) {
		return fmt.Errorf("clock: stage %d: %s takes %v seconds: want a finite time, not negative", k, e.Name(), seconds)
	}
	d := &r.devices[k]
	d.busy = true
	e.Start = r.now
	task := len(r.events)
	r.events = append(r.events, e)
	var piece func(i int)
	piece = func(i int) {
		from, to := 0.0, 1.0
		if i > 0 {
			from = meetings[i-1].At
		}
		if i < len(meetings) {
			to = meetings[i].At
		}
		r.after(float64((to-from)*seconds), func() {
			if i < len(meetings) {
				arrived := r.now
				r.meet(k, timeline.Event{At: e.At, Kind: timeline.Meet, Micro: e.Micro, Bytes: meetings[i].Bytes}, meetings[i].Seconds, func() {
					r.events[task].Away += r.now - arrived
					piece(i + 1)
				})
				return
			}
			r.events[task].End = r.now
			d.busy, d.free = false, r.now
			then()
			r.wakeDevices = append(r.wakeDevices, k)
		})
	}
	piece(0)
	return nil
}

// meet waits at the stage's meeting. The last to come starts it.
func (r *replica) meet(k int, e timeline.Event, seconds float64, goOn func()) {
	m := &r.meetings[k]
	m.here = append(m.here, participant{r, e, goOn})
	m.longest = max(m.longest, seconds)
	if len(m.here) < m.replicas {
		return
	}
	all, longest := m.here, m.longest
	m.here, m.longest = nil, 0
	for _, p := range all {
		p.event.Start, p.event.End = r.now, r.now+longest
		p.replica.events = append(p.replica.events, p.event)
		p.replica.after(longest, p.goOn)
	}
}

// after calls then when seconds have passed.
func (r *replica) after(seconds float64, then func()) { r.until(r.now+seconds, then) }

// until calls then at a time.
func (r *replica) until(at float64, then func()) {
	heap.Push(&r.pending, ending{at: at, order: len(r.events), then: then})
}
