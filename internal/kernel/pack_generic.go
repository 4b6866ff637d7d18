package kernel

func packRowsGeneric(width, count, k int, src []float32, stride int, dst []float32) {
	for p := range k {
		to := dst[p*width:][:width]
		clear(to[copy(to, src[p*stride:][:count]):])
	}
}

func packColumnsGeneric(width, count, k int, src []float32, stride int, dst []float32) {
	for i := range count {
		for p, x := range src[i*stride:][:k] {
			dst[p*width+i] = x
		}
	}
	for p := range k {
		clear(dst[p*width:][count:width])
	}
}
