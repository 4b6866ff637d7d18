package imageoracle

import (
	"math"
	"strings"

	"gpipebench/nn/graph"
)

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// integers returns count integers in [0, n) that the name determines (FNV-1a).
func integers(name string, count, n int) []int32 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	x := make([]int32, count)
	for i := range x {
		x[i] = int32((mix(h+uint64(i)) >> 11) % uint64(n))
	}
	return x
}

// tensor returns multiples of 1/256, uniform from around-limit to around+limit.
func tensor(name string, count int, limit, around float64) []float32 {
	r := int(math.RoundToEven(256 * limit))
	x := make([]float32, count)
	for i, k := range integers(name, count, 2*r+1) {
		x[i] = float32(around + float64(int(k)-r)/256)
	}
	return x
}

// parameter returns a parameter's value.
func parameter(path string, shape graph.Shape) []float32 {
	kind := path[strings.LastIndex(path, "/")+1:]
	switch kind {
	case "weight":
		return tensor(path, shape.Elems(), math.Sqrt(6/float64(shape.Rows())), 0)
	case "gamma", "moving_variance":
		return tensor(path, shape.Elems(), 0.25, 1)
	}
	return tensor(path, shape.Elems(), 0.25, 0)
}
