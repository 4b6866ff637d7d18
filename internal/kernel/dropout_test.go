package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/nn/philox"
)

const (
	testRate    = 0.3
	testStep    = 3<<32 + 17
	testExample = 5<<32 + 1234
	testFirst   = 61 // so that cuts fall on every place in a group
)

var testKey = philox.KeyOf(1, "layer/dropout")

func dropoutKernels() []vectorKernel {
	return []vectorKernel{
		{
			name: "Dropout", flat: true, operands: []operand{{role: writes}, {role: reads}}, aliases: []int{1},
			call: func(o [][]float32, c cut) {
				Dropout(o[0], o[1], nil, testRate, testKey, testStep, testExample, testFirst+c.row)
			},
		},
		{
			name: "DropoutAdd", flat: true, operands: []operand{{role: writes}, {role: reads}, {role: reads}}, aliases: []int{1, 2},
			call: func(o [][]float32, c cut) {
				Dropout(o[0], o[1], o[2], testRate, testKey, testStep, testExample, testFirst+c.row)
			},
		},
	}
}

// dropoutReference computes the definition for one element.
func dropoutReference(x, add, rate float32, step, example uint64, e int) float32 {
	word := philox.Block(testKey, [4]uint32{
		uint32(16*(e/64) + e%16), uint32(step), uint32(example), uint32(step>>32) ^ uint32(example>>32)<<16,
	})[(e/16)%4]
	var factor float32
	if word >= uint32(float64(rate)*(1<<32)) {
		factor = float32(1 / (1 - float64(rate)))
	}
	return float32(x*factor) + add
}

func TestDropoutIsItsDefinition(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, first := range []int{0, 1, 16, 63, 64, 100, 1 << 20, 1<<34 - 100} {
			for _, n := range []int{1, 15, 64, 65, 127, 128, 400} {
				for _, rate := range []float32{0, 0.1, 0.5, 0.999} {
					name := fmt.Sprintf("first %d n %d rate %v", first, n, rate)
					x, dst := make([]float32, n), make([]float32, n)
					for i := range x {
						x[i] = float32(i) - 20.5
					}
					x[0] = float32(math.Inf(1))
					minusZero := float32(math.Copysign(0, -1)) // which changes nothing, not even a zero's sign
					for _, add := range [][]float32{nil, slices.Repeat([]float32{0.3}, n)} {
						Dropout(dst, x, add, rate, testKey, testStep, testExample, first)
						for i := range dst {
							want := dropoutReference(x[i], append(add, minusZero)[min(i, len(add))], rate, testStep, testExample, first+i)
							if math.Float32bits(dst[i]) != math.Float32bits(want) && (dst[i] == dst[i] || want == want) {
								t.Fatalf("%s: element %d is %v, want %v", name, i, dst[i], want)
							}
						}
					}
				}
			}
		}
	})
}

func TestDropoutKeepsItsShare(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		const n = 1 << 16
		x, dst := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = 1
		}
		for example, rate := range []float32{0.01, 0.1, 0.5, 0.9} {
			Dropout(dst, x, nil, rate, testKey, 1, uint64(example), 0)
			kept := 0
			for _, v := range dst {
				if v != 0 {
					kept++
				}
			}
			p := 1 - float64(rate)
			if deviation := math.Sqrt(n * p * (1 - p)); math.Abs(float64(kept)-n*p) > 5*deviation {
				t.Errorf("rate %v kept %d of %d, more than five deviations (%.0f) off", rate, kept, n, deviation)
			}
		}
	})
}
