package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestProfilesGiveTheSameBits compares the results of the profiles that the processor supports,
// but for the generic one. NaNs are equal to each other: which one a processor makes is its own.
// Where operands lie matters to none: see TestVectorBitsWhereverOperandsLie.
func TestProfilesGiveTheSameBits(t *testing.T) {
	for _, k := range vectorKernels() {
		t.Run(k.name, func(t *testing.T) {
			for _, c := range k.lengths() {
				for _, kind := range valueKinds {
					values := k.fill(c)
					for i, o := range k.operands {
						if o.role != writes {
							kind.change(values[i], i, o, rand.New(rand.NewPCG(uint64(c.cols), uint64(i))))
						}
					}
					eachProfile(t, fmt.Sprintf("%+v, %s values", c, kind.name), func() [][]float32 { return k.run(values, onHeap, c) })
				}
			}
		})
	}
}

// lengths returns the kernel's shapes and, where a row is reduced, rows of all lengths up to a few
// times the lanes of the tree.
func (k vectorKernel) lengths() []cut {
	shapes := k.shapes()
	if !k.byRow {
		return shapes
	}
	for cols := 1; cols <= 300; cols++ {
		shapes = append(shapes, cut{rows: 2, cols: cols, ld: cols})
	}
	return append(shapes, cut{rows: 1, cols: 1023, ld: 1023}, cut{rows: 1, cols: 4096 + 17, ld: 4096 + 17})
}

// valueKinds change the random values of operand i of a kernel.
var valueKinds = []struct {
	name   string
	change func(x []float32, i int, o operand, random *rand.Rand)
}{
	{"ordinary", func([]float32, int, operand, *rand.Rand) {}},
	{"subnormal", func(x []float32, _ int, _ operand, random *rand.Rand) {
		for e := range x {
			x[e] = specialValues[3+random.IntN(6)] // zeros with sign among them
		}
	}},
	// Products of two operands become -0.
	{"tiny", func(x []float32, i int, _ operand, random *rand.Rand) {
		for e := range x {
			x[e] = float32(math.Ldexp(float64(1-i%2*2), -80-random.IntN(60)))
		}
	}},
	{"special", func(x []float32, _ int, o operand, random *rand.Rand) {
		every := 32
		if o.layout != asMatrix {
			every = 4
		}
		for e := range x {
			if random.IntN(every) == 0 {
				x[e] = specialValues[random.IntN(len(specialValues))]
			}
		}
	}},
}

// eachProfile calls f with each profile but the generic one and compares the results.
func eachProfile(t *testing.T, what string, f func() [][]float32) {
	t.Helper()
	a, g, v := attention, gemm, vector
	defer func() { attention, gemm, vector = a, g, v }()
	var first [][]float32
	for i, table := range vectorTables() {
		if table.profile == "generic" {
			continue
		}
		attention, gemm, vector = *attentionTables()[i], *gemmTables()[i], *table
		got := f()
		if first == nil {
			first = got
			continue
		}
		for i := range got {
			for e, g := range got[i] {
				if w := first[i][e]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
					t.Fatalf("%s: operand %d element %d is %v (%#x) on %s kernels, %v (%#x) on %s kernels",
						what, i, e, g, math.Float32bits(g), table.profile, w, math.Float32bits(w), vectorTables()[0].profile)
				}
			}
		}
	}
}

// SumSquares has a float64 as its result, all bits of which count.
func TestSumSquaresOnEveryProfile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 700 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Ldexp(random.NormFloat64(), random.IntN(40)))
		}
		want := vectorTables()[0].sumSquares(x)
		for _, table := range vectorTables() {
			if got := table.sumSquares(x); got != want && table.profile != "generic" {
				t.Fatalf("%d elements: %v on %s kernels, %v on %s kernels", n, got, table.profile, want, vectorTables()[0].profile)
			}
		}
	}
}

func TestAttentionOnEveryProfile(t *testing.T) {
	for _, s := range attentionShapes() {
		eachProfile(t, fmt.Sprintf("%+v", s), func() [][]float32 {
			c := newAttentionCase(s)
			c.run()
			return [][]float32{c.o, c.lse, c.dq, c.dk, c.dv}
		})
	}
}

// With 1/deviation = +Inf and x above the mean, every h is +Inf: only a lane beyond the row's end
// could make a NaN.
func TestLayerNormGradOfInfiniteStatistics(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for n := 1; n < 100; n++ {
			x, ones, dx := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], ones[i] = 2, 1
			}
			LayerNormGrad(dx, ones, x, ones, []float32{1, float32(math.Inf(1))}, nil, 1, n)
			for i, v := range dx {
				if !math.IsInf(float64(v), -1) {
					t.Fatalf("%d columns: element %d is %v, want -Inf", n, i, v)
				}
			}
		}
	})
}
