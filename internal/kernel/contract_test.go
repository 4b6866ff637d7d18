package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// Every kernel of every profile gives the bits of its definition, and so does what
// consists of several kernels.
func TestContract(t *testing.T) {
	for _, k := range vectorKernels() {
		t.Run(k.name, func(t *testing.T) {
			for _, c := range append(k.shapes(), k.lengths()...) {
				sameByDefinition(t, fmt.Sprintf("%+v", c), func(fill func(x ...[]float32)) [][]float32 {
					values := k.fill(c)
					for i, o := range k.operands {
						if o.role != writes {
							fill(values[i])
						}
						for e, v := range values[i] {
							if o.positive {
								values[i][e] = abs32(v)
							}
						}
					}
					return k.run(values, onHeap, c)
				})
			}
		})
	}
	t.Run("SumSquares", func(t *testing.T) {
		for n := range 300 {
			sameByDefinition(t, fmt.Sprint(n), func(fill func(x ...[]float32)) [][]float32 {
				x := make([]float32, n)
				fill(x)
				return [][]float32{floats32Of(SumSquares(x))}
			})
		}
	})
	// But for the definition's, calls are cut into ranges of chunks, columns and rows.
	t.Run("batch norm", func(t *testing.T) {
		for _, rows := range []int{1, 2, 127, 128, 129, 300, 512} {
			for _, cols := range []int{1, 8, 19, 64} {
				sameByDefinition(t, fmt.Sprintf("%d x %d", rows, cols), func(fill func(x ...[]float32)) [][]float32 {
					b := newBatchNormCase(rows, cols, rows%2 == 0)
					fill(b.x, b.dy, b.gamma, b.beta)
					for i := range b.x { // chunks whose means are far apart
						b.x[i] += float32(i / cols / NormChunk * 8)
					}
					if inUse != &contract {
						b.cutEvery(min(rows, cols, 16))
					}
					b.run()
					more := newBatchNormCase(rows/2+1, cols, false)
					more.tally = b.tally // which has the rows of both
					fill(more.x)
					more.run()
					y, mean, variance := make([]float32, rows*cols), b.stats[:cols], b.stats[cols:]
					BatchNormEval(y, b.x, nil, mean, variance, b.gamma, b.beta, rows, cols, testEps, b.relu)
					return append(b.outputs(), y)
				})
			}
		}
	})
	t.Run("attention", func(t *testing.T) {
		for _, s := range attentionShapes() {
			if s.Queries == 128 || s.Queries == 200 {
				continue // like 64
			}
			sameByDefinition(t, s.String(), func(fill func(x ...[]float32)) [][]float32 {
				c := newAttentionCase(s)
				fill(c.q, c.k, c.v, c.do)
				c.run()
				return [][]float32{c.o, c.lse, c.dq, c.dk, c.dv}
			})
		}
	})
	t.Run("attention with shared keys", func(t *testing.T) {
		for _, s := range attentionShapes() {
			if s.Queries > 70 || s.HeadDim != 5 {
				continue // one head's are compared above
			}
			sameByDefinition(t, s.String(), func(fill func(x ...[]float32)) [][]float32 {
				c := newAttentionCase(s)
				fill(c.q, c.k, c.v, c.do, c.dk, c.dv)
				c.AddKeys = true
				c.run()
				return [][]float32{c.dq, c.dk, c.dv}
			})
		}
	})
	// These consist of the table's kernels, but for plain loops, and have definitions of their own.
	t.Run("RMS norm", func(t *testing.T) {
		for cols := 1; cols < 300; cols++ {
			sameByDefinition(t, fmt.Sprint(cols, " columns"), func(fill func(x ...[]float32)) [][]float32 {
				const rows = 3
				c := make([][]float32, 4)
				for i := range c {
					c[i] = make([]float32, rows*cols)
				}
				x, dy, y, dx := c[0], c[1], c[2], c[3]
				gamma, dgamma, scale := make([]float32, cols), make([]float32, cols), make([]float32, rows)
				fill(x, dy, gamma, dgamma)
				if inUse == &contract {
					defineRMSNorm(y, dx, dgamma, scale, x, dy, gamma, rows, cols, testEps)
				} else {
					RMSNorm(y, scale, x, gamma, rows, cols, testEps)
					RMSNormGrad(dx, dy, x, gamma, scale, rows, cols)
					RMSNormParamGrad(dgamma, dy, x, scale, rows, cols, cols)
				}
				return [][]float32{y, dx, dgamma, scale}
			})
		}
	})
	t.Run("SwiGLU", func(t *testing.T) {
		for _, n := range []int{1, 15, 16, 33, gluBlock, 2*gluBlock + 7} {
			sameByDefinition(t, fmt.Sprint(n), func(fill func(x ...[]float32)) [][]float32 {
				x, u, dy := make([]float32, n), make([]float32, n), make([]float32, n)
				y, dx, du := make([]float32, n), make([]float32, n), make([]float32, n)
				fill(x, u, dy)
				if inUse == &contract {
					defineSwiGLU(y, dx, du, x, u, dy)
				} else {
					SwiGLU(y, x, u)
					SwiGLUGrad(dx, du, dy, x, u)
				}
				return [][]float32{y, dx, du}
			})
		}
	})
	t.Run("rotary", func(t *testing.T) {
		sameByDefinition(t, "rotary", func(fill func(x ...[]float32)) [][]float32 {
			const rows, cols, headDim, first, period = 9, 30, 10, 3, 5
			x, table, y := make([]float32, rows*cols), make([]float32, period*headDim), make([]float32, rows*cols)
			fill(x, table)
			if inUse == &contract {
				defineRotary(y, x, table, rows, cols, headDim, first, period)
			} else {
				Rotary(y, x, table, rows, cols, headDim, first, period, 1)
			}
			return [][]float32{y}
		})
	})
	t.Run("additive attention", func(t *testing.T) {
		for _, s := range additiveShapes {
			sameByDefinition(t, fmt.Sprintf("%+v", s), func(fill func(x ...[]float32)) [][]float32 {
				c := newAdditiveCase(s)
				fill(c.q, c.k, c.u, c.v, c.do)
				return c.run(func(x []float32) []float32 { return x })
			})
		}
	})
	t.Run("LSTM", func(t *testing.T) {
		eachLSTM(func(c *lstmCase) {
			sameByDefinition(t, c.String(), func(fill func(x ...[]float32)) [][]float32 {
				c := newLSTMCase(c.LSTMShape, c.lengths)
				fill(c.x, c.z, c.wx, c.bias, c.w, c.dy)
				c.run()
				return [][]float32{c.gates, c.y, c.cells, c.dz, c.dx, c.dwx, c.dbias, c.dw}
			})
		})
	})
}

// lengths returns rows of all lengths up to a few times the lanes of a tree, if the kernel
// works by rows.
func (k vectorKernel) lengths() (rows []cut) {
	if !k.byRow {
		return nil
	}
	for cols := 1; cols <= 300; cols++ {
		rows = append(rows, cut{rows: 2, cols: cols, ld: cols})
	}
	return some(append(rows, cut{rows: 1, cols: 1023, ld: 1023}, cut{rows: 1, cols: 4096 + 17, ld: 4096 + 17}))
}

// sameByDefinition compares what run returns with the kernels of every profile with what
// it returns with their definitions, for operands of all kinds of values.
func sameByDefinition(t *testing.T, name string, run func(fill func(x ...[]float32)) [][]float32) {
	t.Helper()
	defer use(inUse)
	for kind, value := range kindsOfValues {
		results := func() [][]float32 {
			random, operand := rand.New(rand.NewPCG(1, 2)), 0
			return run(func(operands ...[]float32) {
				for _, x := range operands {
					for i := range x {
						x[i] = value(random, operand)
					}
					operand++
				}
			})
		}
		use(&contract)
		want := results()
		for _, i := range implementations() {
			use(i)
			for o, got := range results() {
				for e, g := range got {
					if w := want[o][e]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
						t.Fatalf("%s, %s, %s: result %d, element %d is %v (%#x), by definition %v (%#x)",
							i.profile, name, kind, o, e, g, math.Float32bits(g), w, math.Float32bits(w))
					}
				}
			}
		}
	}
}

// kindsOfValues are those, by operand, on which kernels that differ are seen to differ.
var kindsOfValues = map[string]func(random *rand.Rand, operand int) float32{
	"normals":                func(random *rand.Rand, _ int) float32 { return float32(1.5 * random.NormFloat64()) },
	"ties and cancellations": fewBits,
	"products that are -0":   func(_ *rand.Rand, operand int) float32 { return float32(2*(operand%2)-1) * 0x1p-80 },
	"products that are subnormal": func(random *rand.Rand, _ int) float32 {
		return float32(math.Ldexp(random.NormFloat64(), random.IntN(12)-75))
	},
	"many NaNs": func(random *rand.Rand, _ int) float32 {
		return where(random.IntN(2) == 0, float32(math.NaN()), float32(random.NormFloat64()))
	},
	"special values": func(random *rand.Rand, _ int) float32 {
		return where(random.IntN(4) == 0, specialValues[random.IntN(len(specialValues))], float32(random.NormFloat64()))
	},
}

func fewBits(random *rand.Rand, _ int) float32 {
	return float32(math.Ldexp(float64(random.IntN(1<<12)-1<<11), random.IntN(16)-20))
}

// floats32Of returns the bits of a float64 as two float32s.
func floats32Of(v float64) []float32 {
	u := math.Float64bits(v)
	return []float32{math.Float32frombits(uint32(u)), math.Float32frombits(uint32(u >> 32))}
}

// fma32, fmaEach, fmaRow and mulAdd round once: checked against sums of big numbers, of few
// bits, and of products near half of the last place of what they are added to.
func TestMultiplyAddRoundsOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(a, b, c float32) {
		t.Helper()
		want, row, each := exactMultiplyAdd(a, b, c), [4]float32{3: c}, []float32{c}
		fmaRow(1, []float32{a}, 1, []float32{0, 0, 0, b}, 4, &row)
		fmaEach(each, []float32{a}, []float32{b})
		for what, got := range map[string]float32{"fma32": fma32(a, b, c), "fmaEach": each[0], "fmaRow": row[3], "the definition": mulAdd(a, b, c)} {
			if math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("%s: %x * %x + %x is %x, want %x", what, a, b, c, got, want)
			}
		}
	}
	// A tie after the first rounding, of a normal and of a subnormal number.
	check(0x1.000002p-24, 0x1.fffffcp-1, 0x1.000002p0)
	check(0x1.000002p-75, 0x1.fffffcp-76, 0x1.000004p-127)
	few := func(exponent int) float32 { return fewBits(random, 0) * float32(math.Ldexp(1, exponent)) }
	for range 20000 {
		check(few(0), few(-70), few(-random.IntN(130)))
		check(few(0), few(0), few(random.IntN(40)))

		exponent := random.IntN(240) - 148
		nearOne := func(unit float64) float64 { return 1 + float64(random.IntN(9)-4)*unit }
		half := math.Ldexp(nearOne(0x1p-24), max(exponent, -126)-24+random.IntN(3)-1)
		c := math.Ldexp(1+float64(random.IntN(1<<23))*0x1p-23, exponent)
		check(float32(nearOne(0x1p-23)), float32(half), float32(c)*float32(1-2*random.IntN(2)))
	}
}

// exactMultiplyAdd rounds a*b + c once.
func exactMultiplyAdd(a, b, c float32) float32 {
	f := func(x float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(x)) }
	r, _ := f(0).Add(f(0).Mul(f(a), f(b)), f(c)).Float32()
	return r
}
