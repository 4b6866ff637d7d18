package schedule

// dualPipeV is the schedule of DeepSeek's DualPipe for two chunks on each device, placed
// as [Vee] does: the chunks of a device run the forward function of one micro-batch beside
// the backward function of another (the cut-in-half form of DualPipe, see its README). In
// a list they are an F, then a B. micro must be at least twice the number of devices.
func dualPipeV(devices, _, micro int) [][]Task {
	lists := make([][]Task, devices)
	for d := range lists {
		var next [2]struct{ forward, backward int }
		var weights []Task // of inputs' gradients that have been computed
		forward := func(c int) {
			lists[d] = append(lists[d], Task{Kind: Forward, Chunk: c, Micro: next[c].forward})
			next[c].forward++
		}
		backward := func(c int, split bool) {
			t := Task{Kind: Backward, Chunk: c, Micro: next[c].backward}
			if split {
				t.Kind = BackwardInput
				weights = append(weights, Task{Kind: BackwardWeights, Chunk: c, Micro: t.Micro})
			}
			lists[d] = append(lists[d], t)
			next[c].backward++
		}
		weight := func() {
			lists[d] = append(lists[d], weights[0])
			weights = weights[1:]
		}
		after := devices - 1 - d
		for range 2 * after {
			forward(0)
		}
		for range d + 1 {
			forward(0)
			forward(1)
		}
		for range after {
			backward(1, true)
			weight()
			forward(1)
		}
		for range micro - 2*devices + d + 1 {
			forward(0)
			backward(1, false)
			forward(1)
			backward(0, false)
		}
		for range after {
			backward(1, false)
			forward(1)
			backward(0, false)
		}
		for i := range 2 * (d + 1) { // the second half of them, less one on every other device, leaves W for later
			backward((i+1)%2, i > d)
		}
		for range after {
			weight()
			backward(0, true)
		}
		for len(weights) > 0 {
			weight()
		}
	}
	return lists
}
