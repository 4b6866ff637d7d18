package schedule

// interleaved is 1f1b where every device has several chunks (Narayanan et al., arXiv
// 2104.04473, section 2.2), placed as [Loop] does. Micro-batches go through the chunks in
// rounds of as many as there are devices; if their number is no multiple of that, in as
// many rounds of even sizes as there would be full ones, and in one if there are fewer
// micro-batches than devices.
//
// A device runs the F of chunk 0 for a whole round, then those of chunk 1, and so on; its
// backward functions go over the rounds in the same order, and over the chunks in the
// opposite one. It is ahead by the F of all chunks but the last of a round, and by two for
// each device after it; then it takes one F and one B in turn.
func interleaved(devices, chunks, micro int) [][]Task {
	lists := make([][]Task, devices)
	for d := range lists {
		var forward, backward []Task
		from := 0
		for _, to := range rounds(devices, micro) {
			for c := range chunks {
				for m := from; m < to; m++ {
					forward = append(forward, Task{Kind: Forward, Chunk: c, Micro: m})
					backward = append(backward, Task{Kind: Backward, Chunk: chunks - 1 - c, Micro: m})
				}
			}
			from = to
		}
		ahead := min(len(forward), interleavedAhead(devices, chunks, micro, d))
		list := append([]Task{}, forward[:ahead]...)
		for i, t := range forward[ahead:] {
			list = append(list, t, backward[i])
		}
		lists[d] = append(list, backward[len(forward)-ahead:]...)
	}
	return lists
}

// rounds are the ends of the rounds of interleaved, larger ones first.
func rounds(devices, micro int) []int {
	ends := make([]int, max(1, micro/devices))
	for r := range ends {
		ends[r] = (micro*(r+1) + len(ends) - 1) / len(ends)
	}
	return ends
}

// interleavedAhead is how many F a device has before it takes one F and one B in turn, if there are enough.
func interleavedAhead(devices, chunks, micro, device int) int {
	if chunks == 1 {
		return devices - 1 - device
	}
	return (chunks-1)*rounds(devices, micro)[0] + 2*(devices-1-device)
}
