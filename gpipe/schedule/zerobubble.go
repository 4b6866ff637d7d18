package schedule

// The schedules of Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), split
// the backward function: the gradient of a stage's input (I) is what the stage before it
// waits for, and that of its weights (W) may fill what would be idle time.

// ZeroBubble is ZB-H1, or with twice the memory for activations ZB-H2 (section 2.3,
// Figures 3 and 4), on as many devices as stages. After one F more than the device before
// the next, every device takes F, I and W in turn; of H1 each device's W are as far behind
// as the first device's backward functions, so that all of them hold as many activations
// as with 1f1b; of H2 both distances are twice as long.
func ZeroBubble(devices, micro int, twice bool) [][]Task {
	ahead := 1
	if twice {
		ahead = 2
	}
	last := ahead * (devices - 1)
	lists := make([][]Task, devices)
	for d := range lists {
		add := func(k Kind, m int) {
			if m >= 0 && m < micro {
				lists[d] = append(lists[d], Task{Kind: k, Micro: m})
			}
		}
		for x := range micro + last {
			add(Forward, x)
			add(BackwardInput, x-ahead*(devices-1-d))
			add(BackwardWeights, x-last)
		}
	}
	return lists
}
