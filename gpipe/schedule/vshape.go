package schedule

import (
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

// vees is the V-shaped schedule on [Vee]. Among building blocks that fit, it
// is one with the shortest step if F, I and W take the same time.
func (s Schedule) vees(devices, _, micro int) [][]Task {
	size := vSizeOf(devices, micro, s)
	found := vShapes.of(size)
	lists := make([][]Task, devices)
	for d := range lists {
		lists[d] = make([]Task, 0, interval*micro)
	}
	if found.repeat(micro, size.limit, found.eager, math.MaxInt, func(d int, t Task) { lists[d] = append(lists[d], t) }) == 0 {
		return nil
	}
	return lists
}

// vSize is what a V-shaped schedule's building block depends on.
type vSize struct {
	devices, few int // micro-batches that show how long it takes
	limit        int // memory in chunks' activations: those of 1f1b's first device are two for each device
}

func vSizeOf(devices, micro int, shape Schedule) vSize {
	return vSize{devices, min(micro, 3*devices), min(2*devices, map[Schedule]int{ZBV: 2 * devices, VHalf: devices + 2, VMin: (2*devices+2)/3 + 2}[shape])}
}

// vBlock is a building block that was chosen, and how it is repeated.
type vBlock struct {
	block
	eager bool
}

// vFound remembers blocks, since programs that plan ask for the same ones again and again.
type vFound struct {
	sync.Mutex
	blocks map[vSize]*vBlock
}

var vShapes = vFound{blocks: map[vSize]*vBlock{}}

func (f *vFound) of(size vSize) *vBlock {
	f.Lock()
	defer f.Unlock()
	if f.blocks[size] == nil {
		f.blocks[size] = size.search()
	}
	return f.blocks[size]
}

// search takes the first block with the shortest step, and none after one that leaves no device idle.
func (v vSize) search() *vBlock {
	best, alike := &vBlock{}, map[int]int{} // how many blocks of each life have been tried
	least := math.MaxInt
	var b block // one after the other of all that there are
	for pass := range b {
		b[pass] = make([]int, v.devices)
	}
	each(4*2, 3, func(step []int) {
		each(3, 3, func(turn []int) {
			if least == interval*v.few {
				return
			}
			steps := [4][2]int{}
			for i, n := range step {
				steps[i/2][i%2] = 1 + n
			}
			b.set(&steps, turn)
			life := b.life()
			if life > v.limit*interval || alike[life] == 16 || !b.fits() {
				return
			}
			alike[life]++
			for _, eager := range []bool{false, true} {
				if span := b.repeat(v.few, v.limit, eager, least, nil); span > 0 {
					*best, least = vBlock{b.clone(), eager}, span
				}
			}
		})
	})
	return best
}

func (b *block) clone() (c block) {
	for pass := range b {
		c[pass] = slices.Clone(b[pass])
	}
	return c
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

// due is a pass of a micro-batch.
type due struct{ pass, micro int32 }

// inOrder are the F and I of a device, of all micro-batches, in the order in which the repeated
// block begins them.
func (b *block) inOrder(device, micro int) []due {
	all := make([]due, 0, len(passes)*micro)
	var next [len(passes)]int // micro-batch of each pass
	for range cap(all) {
		first, least := 0, math.MaxInt
		for pass, m := range next {
			if at := b[pass][device] + interval*m; m < micro && at < least {
				first, least = pass, at
			}
		}
		all = append(all, due{int32(first), int32(next[first])})
		next[first]++
	}
	return all
}

// repeat runs the block, repeated, in units of time: every device does the F and
// I of the block in its order as soon as it can, and W when there is nothing else to do or
// when it holds as many activations as it may. Runs, which may be nil, is called with each task. It
// returns the longest time from the beginning of a device's first task to the end of its last; 0: it
// cannot, or the time would be least or more.
func (b *block) repeat(micro, limit int, eager bool, least int, runs func(device int, t Task)) (span int) {
	devices := len(b[0])
	place := Vee(devices)
	chunks, stages := place.Chunks(), place.Stages()
	order, weights := make([][]due, devices), make([][]due, devices) // that are left
	for d := range order {
		order[d], weights[d] = b.inOrder(d, micro), make([]due, 0, 2*micro)
	}
	var done [2][]int // by kind: when the F and I of each stage and micro-batch end; 0: not yet
	for k := range done {
		done[k] = make([]int, stages*micro)
	}
	held, tasks := make([]int, devices), make([]int, devices)
	idles := slices.Repeat([]int{-1}, devices) // since the first task; -1: it has not begun
	left := 3 * stages * micro
	for now, idle := 0, 0; left > 0 && idle <= devices*interval; now++ {
		idle++
		for d := range order {
			run := func(kind Kind, of due) {
				if runs != nil {
					runs(d, Task{Kind: kind, Chunk: passes[of.pass].Chunk, Micro: int(of.micro)})
				}
				left--
				tasks[d]++
				idle, idles[d] = 0, max(idles[d], 0)
			}
			// take runs a task of the order if it can.
			take := func(i, limit int) bool {
				at := order[d][i]
				t := passes[at.pass]
				s := chunks[d][t.Chunk]
				of, from := 0, s-1
				if t.Kind == BackwardInput {
					of, from = 1, s+1
				}
				if t.Kind == Forward && held[d] >= limit {
					return false
				}
				if from >= 0 && from < stages {
					if end := done[of][from*micro+int(at.micro)]; end == 0 || end > now {
						return false
					}
				}
				copy(order[d][1:], order[d][:i])
				order[d] = order[d][1:]
				done[of][s*micro+int(at.micro)] = now + 1
				if t.Kind == Forward {
					held[d]++
				} else {
					weights[d] = append(weights[d], at)
				}
				run(t.Kind, at)
				return true
			}
			ready := len(order[d]) > 0 && take(0, limit)
			if !ready && eager && len(weights[d]) == 0 {
				if i := slices.IndexFunc(order[d], func(t due) bool { return t.pass == 0 }); i > 0 {
					ready = take(i, limit-1)
				}
			}
			if !ready && len(weights[d]) > 0 {
				run(BackwardWeights, weights[d][0])
				weights[d] = weights[d][1:]
				held[d]--
				ready = true
			}
			if !ready && idles[d] >= 0 && tasks[d] < interval*micro {
				idles[d]++
			}
			if span = max(span, interval*micro+idles[d]); span >= least {
				return 0
			}
		}
	}
	if left > 0 {
		return 0
	}
	return span
}
