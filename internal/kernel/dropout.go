package kernel

import "gpipebench/nn/philox"

// Dropout sets dst to [add +] x * (keep ? 1/(1-rate) : 0) for the elements
// first to first+len(dst) of one example (Srivastava et al.: Dropout, JMLR 15,
// 2014, scaled while training). add may be nil. dst may be x or add.
//
// Whether an element is kept is a function of only the key, the step, the
// example and the element's index e: word (e/16)%4 of the Philox block with
// counter
//
//	{16(e/64) + e%16, step, example, step>>32 ^ example>>32<<16}
//
// is at least rate * 2^32. So 64 elements share 16 counters, one per vector
// lane. rate is in [0, 1).
func Dropout(dst, x, add []float32, rate float32, key philox.Key, step, example uint64, first int) {
	threshold := uint32(float64(rate) * (1 << 32))
	scale := float32(1 / (1 - float64(rate)))
	c1, c2, c3 := uint32(step), uint32(example), uint32(step>>32)^uint32(example>>32)<<16
	if add == nil {
		vector.dropout(dst, x, first, threshold, scale, key[0], key[1], c1, c2, c3)
		return
	}
	vector.dropoutAdd(dst, x, add, first, threshold, scale, key[0], key[1], c1, c2, c3)
}

func dropoutGeneric(dst, x []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32) {
	eachWord(first, len(dst), k0, k1, c1, c2, c3, func(i int, word uint32) {
		dst[i] = x[i] * dropFactor(word, threshold, scale)
	})
}

func dropoutAddGeneric(dst, x, add []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32) {
	eachWord(first, len(dst), k0, k1, c1, c2, c3, func(i int, word uint32) {
		dst[i] = float32(x[i]*dropFactor(word, threshold, scale)) + add[i]
	})
}

func dropFactor(word, threshold uint32, scale float32) float32 {
	if word >= threshold {
		return scale
	}
	return 0
}

// eachWord calls f with the random word of each element first+i, i < n.
func eachWord(first, n int, k0, k1, c1, c2, c3 uint32, f func(i int, word uint32)) {
	for group := first / 64; group*64 < first+n; group++ {
		for lane := range 16 {
			words := philox.Block(philox.Key{k0, k1}, [4]uint32{uint32(16*group + lane), c1, c2, c3})
			for w, word := range words {
				if i := 64*group + 16*w + lane - first; 0 <= i && i < n {
					f(i, word)
				}
			}
		}
	}
}
