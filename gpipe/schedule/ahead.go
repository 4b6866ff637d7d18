package schedule

// Ahead is how many F of each chunk a device runs before its first B or I: what it holds of
// micro-batches at once, at least. It makes no lists. The arguments must be such as [Place]
// accepts, and chunks is not 0.
func Ahead(s Schedule, devices, chunks, micro, device int) []int {
	after := devices - 1 - device
	switch s {
	case ZBH1:
		return []int{min(micro, after+1)}
	case ZBH2:
		return []int{min(micro, 2*after+1)}
	case DualPipeV:
		if after == 0 {
			return []int{device + 2, device + 1}
		}
		return []int{2*after + device + 1, device + 1}
	case ZBV, VHalf, VMin:
		b := vShapes.of(vSizeOf(devices, micro, s))
		first := b.block[2][device] // I of chunk 1
		all := make([]int, 2)
		for c := range all {
			all[c] = min(micro, (first-b.block[c][device]+interval-1)/interval)
		}
		return all
	case Interleaved:
		all := make([]int, chunks)
		from, left := 0, interleavedAhead(devices, chunks, micro, device)+1
		for _, to := range rounds(devices, micro) {
			for c := range all {
				n := min(left, to-from)
				all[c] += n
				left -= n
			}
			from = to
		}
		return all
	}
	return []int{min(micro, s.warmUp(device, devices, micro)+1)}
}
