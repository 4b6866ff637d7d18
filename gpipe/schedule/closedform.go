package schedule

import (
	"fmt"

	"gpipebench/gpipe/internal/named"
)

// Bubble is the classic share of a step that a device idles when recomputation
// is left out, (K-1)/(M+K-1) (GPipe, section 2.3; arXiv v1, section 4.2): of
// the M+K-1 slots of F, and again of B, each device fills M. stages (K) and
// micro (M) are at least 1.
func Bubble(stages, micro int) float64 {
	return float64(stages-1) / float64(micro+stages-1)
}

// StepTime is the length of a step when every stage takes f, r and b seconds
// for F, R and B of each micro-batch and links are free. K is stages, M is
// micro, n is the number of recomputed micro-batches: M with always, M-1 with
// except-last, 0 with never. It holds for every K >= 1 and M >= 1.
//
// naive: one device works at a time, so the step is the sum of all tasks:
//
//	K (M (f+b) + n r)
//
// gpipe, recomputation early:
//
//	(M+K-1)(f+b) + n r
//
// The last stage gets micro-batch 0 after (K-1) f, and from then on never
// waits: M f, then M b and n r. It ends B(m) at T(m) = (M+K-1) f + (m+1) b +
// (R up to m) r, and stage k ends B(m) at T(m) + (K-1-k) b, by induction from
// k+1 to k and from m-1 to m: B(m) needs the gradient, at T(m) + (K-2-k) b, and
// the device, which has ended B(m-1) at T(m-1) + (K-1-k) b and then R(m) at
// T(m-1) + (K-1-k) b + r = T(m) + (K-2-k) b: the same instant. (R(0), if there
// is one, is over long before.) Stage 0 thus ends at T(M-1) + (K-1) b.
//
// gpipe, recomputation late: R(m) waits for the gradient, so all of stage k's
// backward work on m follows stage k+1's. That is a flow shop of K equal machines
// and M jobs of length p(m) = b, or r+b if m is recomputed; its length is the sum
// of the p(m) plus K-1 times the longest of them. Hence, if n > 0,
//
//	(M+K-1)(f+b) + n r + (K-1) r
//
// which is (M+K-1)(f+r+b) with always; if n = 0 there is no R to be late.
//
// 1f1b: the same as gpipe, which it beats in memory only (Narayanan et al.,
// arXiv 2006.09503). With p = f+r+b, the last stage runs F0 R0 B0
// F1 R1 B1 ... without a pause from (K-1) f on. Early, stage k ends B(m) at
//
//	E(k,m) = (K-1) f + (m+1) p + (K-1-k) b
//
// since after B(m-1) it has one F and R(m) to do, f+r = p-b, and is ready at
// E(k,m) - b, the instant at which the gradient comes from stage k+1. That F,
// of micro-batch m+K-1-k, is over at E(k,m-1) + f; stage k+1 takes it up after
// its B(m), at E(k+1,m) = E(k,m-1) + p - b, which is no earlier. Late, it is
// E(k,m) = (K-1) f + (m+1) p + (K-1-k)(r+b) in the same way, the F alone filling
// the time until the gradient. A micro-batch that is not recomputed shortens p,
// and a stage that has no F left is only ready sooner.
func StepTime(s Schedule, c Checkpoint, late bool, stages, micro int, f, r, b float64) (float64, error) {
	if err := Check(s, stages, micro, c); err != nil {
		return 0, err
	}
	if !s.Straight() || s.Asynchronous() {
		return 0, fmt.Errorf("schedule: a closed form of %v: want %s", s, named.Any(Names()[:len(Plain())]))
	}
	n := c.Recomputed(micro)
	if s == Naive {
		return float64(stages) * (float64(float64(micro)*(f+b)) + float64(float64(n)*r)), nil
	}
	if late && n > 0 {
		n += stages - 1
	}
	return float64(float64(micro+stages-1)*(f+b)) + float64(float64(n)*r), nil
}

// UnevenStepTime is the length of a step of gpipe when every micro-batch is recomputed,
// early, and stage k takes f[k], r[k] and b[k] seconds for F, R and B of each micro-batch;
// links are free.
//
// The micro-batches are equal jobs that pass through the stages, each of which takes one
// at a time: stage s ends its last F at
//
//	f[0] + ... + f[s] + (M-1) max(f[k], k <= s)
//
// and may then recompute its first micro-batch. B(m) of stage k begins when stage k+1 has
// ended its B(m), and stage k its R(m), which it begins when B(m-1) is over. So the step
// ends with the longest path that begins with R(0) of some stage s, goes up through B of
// every stage to the first, and on its way M-1 times to the next micro-batch, which takes r[k]+b[k]
// and is longest where that is largest:
//
//	r[s] + b[s] + ... + b[0] + (M-1) max(r[k]+b[k], k <= s)
func UnevenStepTime(micro int, f, r, b []float64) (longest float64) {
	var forward, backward, slowestForward, slowestBackward float64
	for s := range f {
		forward, backward = forward+f[s], backward+b[s]
		slowestForward, slowestBackward = max(slowestForward, f[s]), max(slowestBackward, r[s]+b[s])
		longest = max(longest, forward+backward+r[s]+float64(float64(micro-1)*(slowestForward+slowestBackward)))
	}
	return longest
}

// InterleavedBubble is the time that a device of interleaved idles, where F, I and W
// cover all its chunks together and micro-batches a multiple of the devices: a part of
// 1f1b's (Narayanan et al., arXiv 2104.04473, section 2.2), and twice the way over all
// links for each chunk but for the way back of the last: with it, Table 5 of arXiv
// 2401.10241 follows from its Table 9, if every layer is a chunk.
func InterleavedBubble(devices, chunks int, d Duration, comm float64) float64 {
	p, v := float64(devices), float64(chunks)
	return float64((p-1)*(d.F+d.I+d.W)/v) + float64((float64(p*(float64(2*v)-1))-2)*comm)
}
