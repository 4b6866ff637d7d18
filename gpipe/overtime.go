package gpipe

import (
	"cmp"
	"math/bits"
	"slices"

	"gpipebench/gpipe/timeline"
)

// MemoryOverTime returns, for each device, the memory that it holds during the step, as
// corners of a staircase. A residual set is held from the forward that keeps it (the
// recomputation, if there is one) to the end of its backward, or of I but for what W reads,
// which is held with what I keeps for it to the end of W; the workspace while a task runs. Parameters, optimiser state, gradients if they are counted, and the
// boundary slots, which are reserved, are held throughout. A staircase's highest step
// is the device's PeakBytes.
func (s *Simulation) MemoryOverTime() [][]MemoryPoint {
	type change struct {
		at   float64
		sets int64
		run  int
	}
	type of struct{ device, chunk, micro int }
	changes := make([][]change, len(s.Devices))
	kept := map[of]float64{} // the time at which a residual set began
	for e := range s.Timeline.OnDevices() {
		if !e.Kind.Task() && e.Kind != timeline.Update {
			continue
		}
		device := s.Timeline.Device(e.At)
		add := func(at float64, sets int64, run int) {
			changes[device] = append(changes[device], change{at, sets, run})
		}
		add(e.Start, 0, 1)
		add(e.End, 0, -1)
		of, set := of{device, e.At.Chunk, e.Micro}, s.Devices[device].kept[e.At.Chunk]
		switch e.Kind {
		case timeline.Forward, timeline.Recompute:
			kept[of] = e.Start // a recomputation comes later and replaces the forward's
		case timeline.Backward:
			add(kept[of], set.residual+set.lasting, 0)
			add(e.End, -set.residual-set.lasting, 0)
		case timeline.BackwardInput:
			add(kept[of], set.residual+set.lasting, 0)
			add(e.Start, set.between, 0)
			add(e.End, -set.residual, 0)
		case timeline.BackwardWeights:
			add(e.End, -set.lasting-set.between, 0)
		}
	}
	all := make([][]MemoryPoint, len(s.Devices))
	for k, d := range s.Devices {
		// At each time, endings come before beginnings.
		slices.SortStableFunc(changes[k], func(a, b change) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sets+int64(a.run), b.sets+int64(b.run)))
		})
		most, sets := int64(1), int64(0)
		for _, c := range changes[k] {
			sets += c.sets
			most = max(most, sets)
		}
		always := d.PeakBytes - d.ResidualBytes - d.WorkspaceBytes
		held := always
		sets, running := int64(0), 0
		corners := []MemoryPoint{{0, held}}
		for i, c := range changes[k] {
			sets, running = sets+c.sets, running+c.run
			if i+1 < len(changes[k]) && changes[k][i+1].at == c.at {
				continue // one corner for all that happens at a time
			}
			corners = append(corners, MemoryPoint{c.at, held})
			held = always + part(d.ResidualBytes, sets, most) + d.WorkspaceBytes*int64(min(running, 1))
			corners = append(corners, MemoryPoint{c.at, held})
		}
		all[k] = append(corners, MemoryPoint{s.Timeline.Span(), held})
	}
	return all
}

// part is bytes * of / all, for of <= all.
func part(bytes, of, all int64) int64 {
	high, low := bits.Mul64(uint64(bytes), uint64(of))
	q, _ := bits.Div64(high, low, uint64(all))
	return int64(q)
}

// micro is what a micro-batch holds of a device's residuals: of what only B or I reads,
// of what W reads as well, and of what I keeps for W; in units of which only the ratios
// count.
type micro struct{ residual, lasting, between int64 }

// MemoryPoint is the memory that a device holds at a time of the step.
type MemoryPoint struct {
	Seconds float64
	Bytes   int64
}
