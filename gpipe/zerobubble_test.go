package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Schedules with the backward function in two. Their hashes, in all ways to run, are among
// those of TestG1 and its relatives.

// ZB-H1 has the memory of Table 2 of arXiv 2401.10241, to the byte: on stage i of p, from
// 1, (p-i+1) M_B + (i-1) M_W, and while an I runs, what it keeps for W as well, since that
// is written before the residuals are free. ZB-H2 has (2p-2i+1) M_B + (2i-2) M_W in the
// same way. 1f1b has p-i+1 times its own M_B, which equals ZB-H1's.
func TestZeroBubbleMemory(t *testing.T) {
	const p, micro = 4, 8
	for _, dt := range []graph.DType{graph.F32, graph.BF16} {
		l := even
		l.model.Layers = 8
		pipeline := l.modelled(t, chip(), p, micro)
		pipeline.Checkpoint = schedule.Never
		pipeline.Balance = []int{3, 2, 2, 3}
		for s, sets := range map[schedule.Schedule]func(i int) (residuals, waiting int){
			schedule.ZBH1:     func(i int) (int, int) { return p - i + 1, i - 1 },
			schedule.ZBH2:     func(i int) (int, int) { return 2*p - 2*i + 1, 2*i - 2 },
			schedule.OneFOneB: func(i int) (int, int) { return p - i + 1, 0 },
		} {
			pipeline.Schedule = s
			n := must(pipeline.modelled(InputOf(l.data(0)), Modelling{DType: dt}))(t)
			for k, planned := range n.MemoryPlans() {
				span := n.Largest(k).Span
				mB, mW := span[program.Residual]+span[program.Lasting], span[program.Lasting]+span[program.Between]
				residuals, waiting := sets(k + 1)
				want := residuals*mB + waiting*mW + span[program.Between]
				if got := planned.Bytes[Residuals] / plan.FloatBytes; got != int64(want) {
					t.Errorf("%v %v, stage %d: %d floats of residuals, want %d (M_B %d, M_W %d)", dt, s, k+1, got, want, mB, mW)
				}
			}
		}
	}
}

// mixed has B of even micro-batches and I and W of odd ones, each W after the next F, on
// the last stage and B alone on the others.
func mixed(stages, micro int) [][]schedule.Task {
	lists, err := schedule.Build(schedule.OneFOneB, stages, micro, schedule.Always, false)
	if err != nil {
		panic(err)
	}
	var list []schedule.Task
	var waiting []schedule.Task
	for _, t := range lists[stages-1] {
		switch {
		case t.Kind == schedule.Forward:
			list = append(append(list, t), waiting...)
			waiting = nil
			continue
		case t.Kind == schedule.Backward && t.Micro%2 == 1:
			w := t
			t.Kind, w.Kind = schedule.BackwardInput, schedule.BackwardWeights
			waiting = append(waiting, w)
		}
		list = append(list, t)
	}
	lists[stages-1] = append(list, waiting...)
	return lists
}

// Lists of a caller may mix B with I and W, with the same bits, also with fewer
// micro-batches at an epoch's end. Each group has finished before the next one begins, for
// both I and W add to accumulators.
func TestOwnListsInTwo(t *testing.T) {
	short := small
	short.batch = 5
	for _, groups := range []int{1, 2} {
		step := func(p Pipeline) string {
			p.Groups = groups
			tr := openSmall(t, p)
			r := stepped(t, tr, small.data(0))
			if p.Tasks != nil {
				checkMemory(t, tr)
				var kinds string
				for _, task := range r.Times.Lists[1] {
					kinds += task.String() + " "
				}
				if one := "F0 R0 B0 F1 R1 I1 F2 W1 R2 B2 "; groups == 1 && kinds != one || groups == 2 && kinds != one+"F3 R3 B3 F4 R4 I4 F5 W4 R5 B5 " {
					t.Errorf("%d groups: %s", groups, kinds)
				}
			}
			stepped(t, tr, short.data(5))
			return tr.Hash()
		}
		want := step(small.pipeline(t))
		for _, kind := range []Kind{Host, Emulated} {
			p := small.pipeline(t)
			p.Partitions, p.MicroBatches, p.Tasks, p.Devices = 2, 3, mixed, []Device{{Kind: kind}}
			testkit.Equal(t, step(p), want, "%d groups on %v devices", groups, kind)
		}
	}
}

// On modelled devices I and W together take the time of B, but for copies at the stage's
// edges; the step of even stages is as on the schedule's own clock, shorter than 1f1b's;
// and the highest step of the memory over time is the device's peak.
func TestZeroBubbleSimulated(t *testing.T) {
	l := even
	l.model.Layers = 8
	p := l.modelled(t, chip(), 4, 8)
	p.Checkpoint, p.Schedule = schedule.Never, schedule.OneFOneB
	whole := simulate(t, l, p, Modelling{})
	for _, s := range []schedule.Schedule{schedule.ZBH1, schedule.ZBH2} {
		p.Schedule = s
		sim := simulate(t, l, p, Modelling{})
		if sim.Seconds >= whole.Seconds {
			t.Errorf("%v takes %v s, 1f1b %v", s, sim.Seconds, whole.Seconds)
		}
		for k, d := range sim.Devices {
			if off := math.Abs(d.BusySeconds/whole.Devices[k].BusySeconds - 1); off > 1e-3 {
				t.Errorf("%v, device %d: busy for %v s, with B in one %v", s, k, d.BusySeconds, whole.Devices[k].BusySeconds)
			}
			var highest int64
			for _, at := range sim.MemoryOverTime()[k] {
				highest = max(highest, at.Bytes)
			}
			testkit.Equal(t, d.PeakBytes, highest, "%v, device %d: highest %d bytes, peak", s, k, highest)
		}
	}
}
