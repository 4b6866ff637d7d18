package schedule

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// V-shaped schedules have two chunks on each device, placed as [Vee] does, so that the
// device that begins first with a micro-batch also ends with it first: memory is even
// over devices, and can be chosen (Qi et al., arXiv 2401.10241, section 6, and arXiv
// 2405.15362, whose building blocks these are).

// interval is the time between a micro-batch and the next in units of F, I and W, which
// are taken to be the same: a device does all three for both chunks.
const interval = 6

// block is when, after the first F of a micro-batch, each device begins F of chunk 0, F of
// chunk 1, I of chunk 1 and I of chunk 0. The pattern repeats every interval.
type block [4][]int

// passes are the tasks of a block.
var passes = [4]Task{{Kind: Forward}, {Kind: Forward, Chunk: 1}, {Kind: BackwardInput, Chunk: 1}, {Kind: BackwardInput}}

// set makes the block go down, up, down and up over the devices, each with its own numbers
// of units from an even device to the next and from an odd one, and wait so long at each turn.
func (b *block) set(steps *[4][2]int, turns []int) {
	at, devices := 0, len(b[0])
	for pass := range b {
		for i := range devices {
			d := i
			if pass%2 == 1 {
				d = devices - 1 - i
			}
			if i > 0 {
				at += steps[pass][d%2]
			}
			b[pass][d] = at
		}
		if pass < len(turns) {
			at += 1 + turns[pass]
		}
	}
}

// fits reports whether no device has two tasks at once when the block repeats.
func (b *block) fits() bool {
	for d := range b[0] {
		var taken [interval]bool
		for pass := range b {
			at := &taken[b[pass][d]%interval]
			if *at {
				return false
			}
			*at = true
		}
	}
	return true
}

// life is the longest time that a device keeps the activations of a micro-batch, of both
// chunks together.
func (b *block) life() (longest int) {
	for d := range b[0] {
		longest = max(longest, b[3][d]-b[0][d]+b[2][d]-b[1][d]+2)
	}
	return longest
}

// vees is the V-shaped schedule of a shape on [Vee]. Among building blocks that fit, it
// is one with the shortest step if F, I and W take the same time.
func vees(devices, micro int, shape Schedule) [][]Task {
	// Memory in chunks' activations: those of 1f1b's first device are two for each device.
	return vShapes.of(vSize{devices, micro, map[Schedule]int{ZBV: 2 * devices, VHalf: devices + 2, VMin: (2*devices+2)/3 + 2}[shape]})
}

// vSize is what a V-shaped schedule depends on.
type vSize struct{ devices, micro, limit int }

// vFound remembers schedules, since looking for one takes a tenth of a second and programs
// that plan ask for the same ones again and again.
type vFound struct {
	sync.Mutex
	lists map[vSize][][]Task
}

var vShapes vFound

// of returns lists that are the caller's own.
func (f *vFound) of(size vSize) [][]Task {
	f.Lock()
	lists := f.lists[size]
	f.Unlock()
	if lists == nil {
		lists = vShaped(size.devices, size.micro, size.limit)
		f.Lock()
		if f.lists == nil || len(f.lists) == 64 {
			f.lists = map[vSize][][]Task{}
		}
		f.lists[size] = lists
		f.Unlock()
	}
	own := make([][]Task, len(lists))
	for d := range lists {
		own[d] = slices.Clone(lists[d])
	}
	return own
}

func vShaped(devices, micro, limit int) (best [][]Task) {
	alike := map[int]int{} // how many blocks of each life have been tried
	least := math.Inf(1)
	few := min(micro, 3*devices) // which show how long it takes
	var b block                  // one after the other of all that there are
	for pass := range b {
		b[pass] = make([]int, devices)
	}
	each(4*2, 3, func(step []int) {
		each(3, 3, func(turn []int) {
			steps := [4][2]int{}
			for i, n := range step {
				steps[i/2][i%2] = 1 + n
			}
			b.set(&steps, turn)
			life := b.life()
			if life > limit*interval || alike[life] == 16 || !b.fits() {
				return
			}
			alike[life]++
			for _, eager := range []bool{false, true} {
				lists := b.repeat(few, limit, eager)
				if lists == nil {
					continue
				}
				times, err := Run(lists, Vee(devices), few, Alike(Duration{F: 1, I: 1, W: 1}, 0))
				if err == nil && times.Longest() < least {
					best, least = b.repeat(micro, limit, eager), times.Longest()
				}
			}
		})
	})
	return best
}

// each calls f with all of n numbers from 0 up to most.
func each(n, most int, f func([]int)) {
	at := make([]int, n)
	for {
		f(at)
		i := 0
		for ; i < n; i++ {
			if at[i]++; at[i] < most {
				break
			}
			at[i] = 0
		}
		if i == n {
			return
		}
	}
}

// repeat makes lists of the block, repeated, in units of time: every device does the F and
// I of the block in its order as soon as it can, and W when there is nothing else to do or
// when it holds as many activations as it may; nil: it cannot.
func (b *block) repeat(micro, limit int, eager bool) [][]Task {
	devices := len(b[0])
	type due struct {
		at int
		Task
	}
	place := Vee(devices)
	chunks := place.Chunks()
	order := make([][]due, devices)
	for d := range order {
		for m := range micro {
			for pass, t := range passes {
				t.Micro = m
				order[d] = append(order[d], due{b[pass][d] + interval*m, t})
			}
		}
		slices.SortStableFunc(order[d], func(x, y due) int { return cmp.Compare(x.at, y.at) })
	}
	stages := place.Stages()
	var done [2][][]int // by kind: when the F and I of each stage and micro-batch end; 0: not yet
	for k := range done {
		done[k] = make([][]int, stages)
		for s := range done[k] {
			done[k][s] = make([]int, micro)
		}
	}
	lists := make([][]Task, devices)
	weights, held := make([][]Task, devices), make([]int, devices)
	left := 3 * stages * micro
	for now, idle := 0, 0; left > 0 && idle <= devices*interval; now++ {
		idle++
		for d := range lists {
			run := func(t Task) {
				lists[d] = append(lists[d], t)
				left--
				idle = 0
			}
			// take runs a task of the order if it can.
			take := func(i, limit int) bool {
				t := order[d][i].Task
				s := chunks[d][t.Chunk]
				of, from := 0, s-1
				if t.Kind == BackwardInput {
					of, from = 1, s+1
				}
				if t.Kind == Forward && held[d] >= limit {
					return false
				}
				if from >= 0 && from < stages && (done[of][from][t.Micro] == 0 || done[of][from][t.Micro] > now) {
					return false
				}
				order[d] = slices.Delete(order[d], i, i+1)
				done[of][s][t.Micro] = now + 1
				if t.Kind == Forward {
					held[d]++
				} else {
					weights[d] = append(weights[d], Task{Kind: BackwardWeights, Chunk: t.Chunk, Micro: t.Micro})
				}
				run(t)
				return true
			}
			ready := len(order[d]) > 0 && take(0, limit)
			if !ready && eager && len(weights[d]) == 0 {
				if i := slices.IndexFunc(order[d], func(x due) bool { return x.Kind == Forward && x.Chunk == 0 }); i > 0 {
					ready = take(i, limit-1)
				}
			}
			if !ready && len(weights[d]) > 0 {
				run(weights[d][0])
				weights[d] = weights[d][1:]
				held[d]--
			}
		}
	}
	if left > 0 {
		return nil
	}
	return lists
}
