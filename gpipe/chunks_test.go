package gpipe

import (
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
)

// interleaved is the pipeline on devices with several chunks each.
func interleaved(p Pipeline, devices, chunks, micro int) Pipeline {
	p.Partitions, p.Chunks, p.MicroBatches, p.Schedule = devices, chunks, micro, schedule.Interleaved
	return p
}

// fine is small, cut also inside of its layers, for more pieces.
func fine() lm {
	l := small
	l.model = transformer.Config{Layers: 4, Dim: 8, FeedForward: 16, Heads: 2, Vocab: 11, SeqLen: 6, Tied: true, Fine: true}
	return l
}

// On every device two chunks share the table: the first has the embedding, and the last the
// softmax. Each has a copy, and all have the same gradient in the norm once.
func TestChunksShareAWeight(t *testing.T) {
	l := fine()
	want := l.train(t, l.pipeline(t))
	want.changes(t)
	for _, placed := range []schedule.Placement{schedule.Vee(2), schedule.Loop(1, 3), schedule.Vee(3)} {
		p := l.pipeline(t)
		p.Partitions, p.MicroBatches, p.Placement, p.Tasks = placed.Devices, 4, placed, through(placed)
		testkit.Equal(t, l.train(t, p), want, "%v", placed)
	}
	// Also with groups and replicas.
	for _, r := range []int{1, 2} {
		p := l.pipeline(t)
		p.Groups = 2
		want := l.train(t, p)
		p.Partitions, p.MicroBatches, p.Placement, p.Tasks, p.Replicas = 2, 3, schedule.Vee(2), through(schedule.Vee(2)), r
		testkit.Equal(t, l.train(t, p), want, "R=%d", r)
	}
}

// A large table's blocks, which different replicas own, count once in the norm, though
// every device has two copies of it.
func TestChunksShareALargeWeight(t *testing.T) {
	l := blocky
	l.model.Fine = true
	p := l.pipeline(t)
	p.Groups = 2
	want := l.train(t, p)
	want.changes(t)
	p.Partitions, p.MicroBatches, p.Placement, p.Tasks, p.Replicas = 2, 3, schedule.Vee(2), through(schedule.Vee(2)), 2
	testkit.Equal(t, l.train(t, p), want)
}

// through has the lists of one micro-batch after the other, with R.
func through(p schedule.Placement) func(devices, micro int) [][]schedule.Task {
	return func(devices, micro int) [][]schedule.Task {
		lists := make([][]schedule.Task, devices)
		chunks := p.Chunks()
		for m := range micro {
			for c := range chunks[0] {
				for d := range lists {
					lists[d] = append(lists[d], schedule.Task{Kind: schedule.Forward, Micro: m, Chunk: c, Keep: m%2 == 1})
				}
			}
			for c := range chunks[0] {
				for d := range lists {
					chunk := len(chunks[d]) - 1 - c
					if m%2 == 0 {
						lists[d] = append(lists[d], schedule.Task{Kind: schedule.Recompute, Micro: m, Chunk: chunk})
					}
					lists[d] = append(lists[d], schedule.Task{Kind: schedule.Backward, Micro: m, Chunk: chunk})
				}
			}
		}
		return lists
	}
}

// Simulations run chunks: with even times and free links, interleaving divides the bubble.
func TestChunksSimulated(t *testing.T) {
	l := fine()
	var bubbles []float64
	for _, chunks := range []int{1, 2} {
		p := interleaved(l.pipeline(t), 2, chunks, 4)
		p.Devices = []Device{DeviceOf(chip())}
		s := simulate(t, l, p, Modelling{})
		if len(s.Devices) != 2 || len(s.Sizes) != 2*chunks {
			t.Errorf("%d devices, %d pieces", len(s.Devices), len(s.Sizes))
		}
		bubbles = append(bubbles, s.Parts.Bubble)
	}
	if ratio := bubbles[1] / bubbles[0]; ratio > 0.75 {
		t.Errorf("the bubble of two chunks is %v of that of one", ratio)
	}
}

// TestG1Schedules is TestG1 for every schedule with every small number of devices, chunks on
// each and micro-batches, also fewer of these than devices: all that there are, and under
// -short those with three devices.
func TestG1Schedules(t *testing.T) {
	l := small
	l.model.Fine, l.steps = true, 2
	want := l.train(t, l.pipeline(t))
	want.changes(t)
	devices := []int{1, 2, 3, 4}
	if testing.Short() {
		devices = devices[2:3]
	}
	for s := schedule.GPipe; s <= schedule.DualPipeV; s++ {
		chunks := []int{0} // as many as the schedule has
		if s == schedule.Interleaved {
			chunks = []int{1, 2, 3}
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			for _, k := range devices {
				for _, v := range chunks {
					for _, m := range []int{1, 2, 3, 4, l.batch} {
						if s == schedule.DualPipeV && m < 2*k {
							continue // there is none
						}
						p := l.pipeline(t)
						p.Schedule, p.Partitions, p.Chunks, p.MicroBatches, p.Checkpoint = s, k, v, m, schedule.Checkpoint((k+v+m)%3)
						testkit.Equal(t, l.train(t, p), want, "K=%d V=%d M=%d %v", k, v, m, p.Checkpoint)
					}
				}
			}
		})
	}
}
