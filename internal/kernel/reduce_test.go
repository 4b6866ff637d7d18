package kernel

import (
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// reduceKernels writes each row's result into an output.
func reduceKernels() []vectorKernel {
	in, result := operand{role: reads}, operand{role: writes, layout: perRow}
	var kernels []vectorKernel
	reduction := func(name string, inputs int, of func(x [][]float32) float32) {
		row := make([][]float32, inputs)
		kernels = append(kernels, vectorKernel{
			name: name, byRow: true, operands: append([]operand{result}, slices.Repeat([]operand{in}, inputs)...),
			call: func(o [][]float32, c cut) {
				for r := range c.rows {
					for i := range row {
						row[i] = o[1+i][r*c.cols : (r+1)*c.cols]
					}
					o[0][r] = of(row)
				}
			},
		})
	}
	const scale, shift = 0.5, 1.25
	reduction("rowMax", 1, func(x [][]float32) float32 { return RowMax(x[0]) })
	reduction("rowSum", 1, func(x [][]float32) float32 { return RowSum(x[0]) })
	reduction("dot", 2, func(x [][]float32) float32 { return vector.dot(x[0], x[1]) })
	reduction("SumSquares", 1, func(x [][]float32) float32 { return float32(SumSquares(x[0])) })
	reduction("FirstNonFinite", 1, func(x [][]float32) float32 { return float32(FirstNonFinite(x[0])) })
	reduction("expSum", 1, func(x [][]float32) float32 { return vector.expSum(x[0], scale, shift) })
	reduction("AddExps", 1, func(x [][]float32) float32 {
		var lanes [ExpLanes]float32
		AddExps(lanes[:], x[0], shift)
		return Fold(lanes[:])
	})
	return append(kernels, vectorKernel{
		name: "Softmax", operands: []operand{{role: writes}, in}, byRow: true, aliases: []int{1},
		call: func(o [][]float32, c cut) { Softmax(o[0], o[1], c.rows, c.cols) },
	}, vectorKernel{
		name: "SoftmaxGrad", operands: []operand{{role: writes}, in, {role: reads, positive: true}}, byRow: true, aliases: []int{1},
		call: func(o [][]float32, c cut) { SoftmaxGrad(o[0], o[1], o[2], c.rows, c.cols) },
	}, vectorKernel{
		name: "expShift", operands: []operand{{role: writes}, in, result}, byRow: true, aliases: []int{1},
		call: func(o [][]float32, c cut) {
			for r := range c.rows {
				from, to := r*c.cols, (r+1)*c.cols
				o[2][r] = vector.expShift(o[0][from:to], o[1][from:to], scale, shift)
			}
		},
	})
}

func TestRowReductionsOfNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		if got := RowMax(nil); !math.IsInf(float64(got), -1) {
			t.Errorf("rowMax is %v, want -Inf", got)
		}
		for name, got := range map[string]float64{
			"rowSum": float64(RowSum(nil)), "dot": float64(vector.dot(nil, nil)), "SumSquares": SumSquares(nil),
			"expSum": float64(ExpSum(nil, 0)), "expShift": float64(vector.expShift(nil, nil, 1, 0)),
		} {
			testkit.Equal(t, got, 0, "%s", name)
		}
	})
}

func TestFirstNonFinite(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for n := 1; n < 150; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = []float32{math.MaxFloat32, -math.MaxFloat32, 0, math.SmallestNonzeroFloat32}[i%4]
			}
			testkit.Equal(t, FirstNonFinite(x), -1, "%d finite elements: found", n)
			for at := n - 1; at >= 0; at-- {
				x[at] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0xff800001)}[at%4]
				testkit.Equal(t, FirstNonFinite(x), at, "%d elements: found", n)
			}
		}
	})
}

// Over the whole range of float32, one in 997 numbers (or 9973): functions are as they
// are defined, and near those of mathematics; the exponential is within 1 ulp.
func TestFunctionsOverTheWholeRange(t *testing.T) {
	step := uint64(997)
	if testing.Short() {
		step = 9973
	}
	eachProfile(t, func(t *testing.T) {
		x := make([]float32, 1024)
		y := make([]float32, len(x))
		for start := uint64(0); start < 1<<32; start += step * uint64(len(x)) {
			for i := range x {
				x[i] = math.Float32frombits(uint32(start + step*uint64(i)))
			}
			for _, f := range []struct {
				name   string
				kernel func(dst, x []float32)
				define func(x float32) float32
				exact  func(x float64) float64 // for x from -10 to 10
				ulps   float64
			}{
				{"tanh", Tanh, defineTanh, math.Tanh, 6},
				{"sigmoid", Sigmoid, defineSigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 8},
				{"gelu", Gelu, defineGelu, func(x float64) float64 {
					return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
				}, 256}, // the exponential's argument is off by 1.5 ulp of up to 88
				{"exp", Exp, defineExp, math.Exp, 16},
			} {
				f.kernel(y, x)
				for i, v := range x {
					if want := f.define(v); math.Float32bits(y[i]) != math.Float32bits(want) && (y[i] == y[i] || want == want) {
						t.Fatalf("%s(%v) is %v, by definition %v", f.name, v, y[i], want)
					}
					if exact := f.exact(float64(v)); -10 <= v && v <= 10 && !closeTo(y[i], exact, f.ulps, 0) {
						t.Fatalf("%s(%v) is %v, want %v", f.name, v, y[i], exact)
					}
				}
			}
			for i, v := range x {
				want := math.Exp(float64(v))
				nearest := float32(want)
				if y[i] == nearest || y[i] != y[i] && want != want {
					continue
				}
				ulp := float64(math.Nextafter32(nearest, math.MaxFloat32)) - float64(nearest)
				if e := math.Abs(float64(y[i])-want) / ulp; !(e <= 1) {
					t.Fatalf("exp(%v) is %v, want %v: %v ulp", v, y[i], nearest, e)
				}
			}
		}
	})
}

func TestExpAtItsEdges(t *testing.T) {
	inf := float32(math.Inf(1))
	eachProfile(t, func(t *testing.T) {
		for _, c := range []struct{ x, want float32 }{
			{0, 1}, {float32(math.Copysign(0, -1)), 1}, {math.SmallestNonzeroFloat32, 1},
			{-inf, 0}, {-math.MaxFloat32, 0}, {-1000, 0}, {-104, 0}, {-103.97, math.SmallestNonzeroFloat32},
			{88.72284, inf}, {88.72283, 0x1.ffff08p127}, {1000, inf}, {math.MaxFloat32, inf}, {inf, inf},
		} {
			y := []float32{0}
			sum := vector.expShift(y, []float32{c.x}, 1, 0)
			if y[0] != c.want || sum != c.want {
				t.Errorf("exp(%v) is %v, sum %v, want %v", c.x, y[0], sum, c.want)
			}
		}
		if nan := ExpSum([]float32{float32(math.NaN())}, 0); nan == nan {
			t.Errorf("exp(NaN) is %v", nan)
		}
	})
}
