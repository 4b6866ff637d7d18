package gpipe

import (
	"cmp"
	"maps"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/program"

	"gonum.org/v1/gonum/floats"
)

// KernelRun is one run of a kernel in a training step.
type KernelRun struct {
	At      place.Place
	Task    schedule.Kind
	Instr   *program.Instr
	Seconds float64 // on the device's clock
	// Parts are the seconds of each part over which an emulated device divides images, timed
	// alone; nil if there are none.
	Parts []float64
}

// Watch makes every stage call f, from the next training step on, with each kernel that
// it has run, on the stage's goroutine; nil ends this. On emulated devices one stage runs
// at a time. The calls take time themselves.
func (t *Trainer) Watch(f func(KernelRun)) { t.watch = f }

// Profile says where the time of training steps goes, by operation. It is made by
// [Trainer.Profile].
type Profile struct {
	trainer *Trainer
	kernels map[place.Place]map[kernelOf]*kernelTime // of the devices of this process
	steps   int
	seconds float64
	parts   stepParts
}

// kernelOf is an instruction as a kind of task runs it: an F that keeps its residuals
// runs the program of R.
type kernelOf struct {
	task  schedule.Kind
	instr *program.Instr
}

type kernelTime struct {
	calls   int
	seconds float64
}

// stepParts is device time in seconds, of the devices of this process.
type stepParts struct{ setup, tasks, reduce, update, crossing, waiting float64 }

// Profile begins to time every kernel of the training steps that follow, in place of what
// [Trainer.Watch] has been given. Of a pipeline in several processes it covers the devices
// of this one.
func (t *Trainer) Profile() *Profile {
	p := &Profile{trainer: t, kernels: map[place.Place]map[kernelOf]*kernelTime{}}
	for _, d := range t.devices {
		for _, piece := range t.net.Pieces.On(d.k) {
			p.kernels[t.net.Pieces.At(d.at.Replica, piece)] = map[kernelOf]*kernelTime{}
		}
	}
	t.profile = p
	t.Watch(func(run KernelRun) {
		of, kernels := kernelOf{run.Task, run.Instr}, p.kernels[run.At] // which no other goroutine has
		sum := kernels[of]
		if sum == nil {
			sum = &kernelTime{}
			kernels[of] = sum
		}
		sum.calls++
		sum.seconds += run.Seconds
	})
	return p
}

// Stop ends the timing. What was timed stays.
func (p *Profile) Stop() {
	if p.trainer.profile == p {
		p.trainer.profile = nil
		p.trainer.Watch(nil)
	}
}

// add counts a step that is done.
func (p *Profile) add(r *Result) {
	window := max(r.Times.Window, 1)
	p.steps += window
	p.seconds += float64(r.Seconds * float64(window))
	for _, d := range p.trainer.devices {
		p.parts.add(r, d.at)
	}
}

// add adds the parts of one device's step. Together they are the step.
func (s *stepParts) add(r *Result, at place.Place) {
	times := r.Times.At(at)
	own := stepParts{setup: times.Setup, update: times.Update, reduce: times.Reduce + times.Gather + times.Rows}
	own.reduce += floats.Sum(times.Groups)
	for chunk := range r.Times.chunks(at.Stage) {
		of := r.Times.At(place.Place{Replica: at.Replica, Stage: at.Stage, Chunk: chunk})
		for _, all := range [][]float64{of.F, of.R, of.B, of.I, of.W} {
			own.tasks += floats.Sum(all)
		}
		own.update += floats.Sum(of.U)
		forward, backward := of.meetingSeconds()
		own.reduce += forward + backward
	}
	on := func(p place.Place) bool { return p.Replica == at.Replica && p.Stage == at.Stage }
	var busy, transfers []interval
	for _, e := range r.Timeline.Events {
		switch {
		case !on(e.At) && !on(e.Peer):
		case on(e.At) && e.Kind.OnDevice():
			busy = append(busy, interval{e.Start, e.End})
		case e.Kind == timeline.Transfer:
			transfers = append(transfers, interval{e.Start, e.End})
		}
	}
	// Transfers while the device computes take none of its time.
	own.crossing = length(slices.Concat(transfers, busy)) - length(busy) + r.Timeline.Busy(r.Timeline.Device(at), timeline.ToHost, timeline.FromHost)
	own.waiting = r.Timeline.Span() - own.setup - own.tasks - own.reduce - own.update - own.crossing

	s.setup += own.setup
	s.tasks += own.tasks
	s.reduce += own.reduce
	s.update += own.update
	s.crossing += own.crossing
	s.waiting += own.waiting
}

// interval is from one second of a step to another.
type interval struct{ from, to float64 }

// length is the time that intervals cover, each moment once.
func length(of []interval) (sum float64) {
	of = slices.SortedFunc(slices.Values(of), func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	end := 0.0
	for _, i := range of {
		if i.to > end {
			sum += i.to - max(i.from, end)
			end = i.to
		}
	}
	return sum
}

// ProfileRow is an operation's part of a training step: means over the steps, sums over
// the devices.
type ProfileRow struct {
	Task    string  `json:"task"` // forward, recompute, backward, backward-input or backward-weights of a kernel; else ""
	Op      string  `json:"op"`
	Calls   float64 `json:"calls"`
	Seconds float64 `json:"seconds"`
	// Share is of the device time: of the step, times the devices.
	Share float64 `json:"share"`
	FLOPs float64 `json:"flops"` // 2 x multiply-adds of matrix products; 0 of other kernels; of all parts of images
	Bytes float64 `json:"bytes"` // of the operands, each read or written once; the same
}

// The rows of a profile that are not kernels.
const (
	ClearRow    = "clear gradients"       // before the first task
	ReduceRow   = "sums over groups"      // of gradients, gathered ones too, and over replicas of statistics as well
	UpdateRow   = "update"                // sums of gradients, their norms, the optimiser, moving averages
	BesideRow   = "besides kernels"       // tasks without their kernels: inputs are copied, kernels started and timed
	CrossingRow = "copies between stages" // while the device does nothing else
	WaitingRow  = "waiting"               // the rest: the bubble, imbalance, the barrier, and what is between two tasks
)

// StepSeconds is the mean time of a step, on its devices' clock.
func (p *Profile) StepSeconds() float64 { return p.seconds / float64(max(p.steps, 1)) }

// Steps is how many steps have been timed.
func (p *Profile) Steps() int { return p.steps }

// Rows returns the kernels, those that take longest first, and then everything else that
// the devices' time goes to. The rows' seconds add up to the step's, times the devices.
func (p *Profile) Rows() []ProfileRow {
	steps := float64(max(p.steps, 1))
	share := func(row *ProfileRow) { row.Share = row.Seconds / (p.StepSeconds() * float64(len(p.trainer.devices))) }
	sums := map[[2]string]*ProfileRow{}
	var kernels float64
	for _, stage := range p.kernels {
		for of, time := range stage {
			id := [2]string{[...]string{"forward", "recompute", "backward", "backward-input", "backward-weights"}[of.task], of.instr.Op}
			if sums[id] == nil {
				sums[id] = &ProfileRow{Task: id[0], Op: id[1]}
			}
			row, calls := sums[id], float64(time.calls)/steps
			row.Calls += calls
			row.Seconds += time.seconds / steps
			flops, bytes := of.instr.Work()
			row.FLOPs += float64(calls * float64(flops))
			row.Bytes += float64(calls * float64(bytes))
			kernels += time.seconds
		}
	}
	var rows []ProfileRow
	for _, id := range slices.SortedFunc(maps.Keys(sums), func(a, b [2]string) int {
		return cmp.Or(-cmp.Compare(sums[a].Seconds, sums[b].Seconds), slices.Compare(a[:], b[:]))
	}) {
		rows = append(rows, *sums[id])
	}
	clear, update := ProfileRow{Op: ClearRow, Seconds: p.parts.setup / steps}, ProfileRow{Op: UpdateRow, Seconds: p.parts.update / steps}
	for _, d := range p.trainer.devices {
		clear.Bytes += d.mem.plan.ClearBytes()
		update.Bytes += d.mem.plan.UpdateBytes()
		clear.Calls++
		update.Calls++
	}
	rows = append(rows, clear)
	if p.parts.reduce > 0 {
		rows = append(rows, ProfileRow{Op: ReduceRow, Seconds: p.parts.reduce / steps})
	}
	rows = append(rows, update,
		ProfileRow{Op: BesideRow, Seconds: (p.parts.tasks - kernels) / steps},
		ProfileRow{Op: CrossingRow, Seconds: p.parts.crossing / steps},
		ProfileRow{Op: WaitingRow, Seconds: p.parts.waiting / steps})
	for i := range rows {
		share(&rows[i])
	}
	return rows
}
