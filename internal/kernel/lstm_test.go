package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gpipebench/internal/testkit"
)

// An lstmCase has the tensors of a scan. Rows of x, z and dy beyond a length are NaN.
type lstmCase struct {
	LSTMShape
	lengths                           []int32
	x, z, wx, bias, w, dy             []float32
	gates, y, cells, dz, dx, previous []float32
	dwx, dbias, dw                    []float32
	scratch, gradScratch, wScratch    []float32
}

func (c *lstmCase) String() string { return fmt.Sprintf("%+v lengths %v", c.LSTMShape, c.lengths) }

func (c *lstmCase) operands() []*[]float32 {
	return []*[]float32{&c.x, &c.z, &c.wx, &c.bias, &c.w, &c.dy, &c.gates, &c.y, &c.cells, &c.dz, &c.dx, &c.previous,
		&c.dwx, &c.dbias, &c.dw, &c.scratch, &c.gradScratch, &c.wScratch}
}

// results are the states and their gradients, and then the gradients of the weights.
func (c *lstmCase) results() [][]float32 {
	return [][]float32{c.gates, c.y, c.cells, c.dz, c.dx, c.previous, c.dwx, c.dbias, c.dw}
}

func newLSTMCase(s LSTMShape, lengths []int32) *lstmCase {
	r := rand.New(rand.NewPCG(7, 9))
	fill := func(n int, size float64) []float32 { return normals(r, n, 0, size) }
	h, g, d := s.Hidden, 4*s.Hidden, s.Input
	rows := s.Examples * s.Time
	c := &lstmCase{
		LSTMShape: s, lengths: lengths,
		x: fill(rows*d, 1), z: fill(rows*g, 1), dy: fill(rows*h, 1),
		wx: fill(d*g, 0.5), bias: fill(g, 1), w: fill(h*g, 0.5),
		gates: fill(rows*g, 1), y: fill(rows*h, 1), cells: fill(rows*h, 1), dz: fill(rows*g, 1), dx: fill(rows*d, 1), previous: fill(rows*h, 1),
		dwx: fill(d*g, 1), dbias: fill(g, 1), dw: fill(h*g, 1),
		scratch: fill(s.Scratch(), 1), gradScratch: fill(s.GradScratch(), 1), wScratch: fill(s.WeightGradScratch(g), 1),
	}
	if s.Hidden == 3 { // negative zeros, which a product with zeros may turn into positive ones
		minusZero := float32(math.Copysign(0, -1))
		for _, x := range [][]float32{c.x, c.z, c.bias, c.dy} {
			for i := range x {
				x[i] = minusZero
			}
		}
		for i, v := range c.w {
			c.w[i] = float32(math.Abs(float64(v)))
		}
	}
	for e := range s.Examples {
		for t := s.length(lengths, e); t < s.Time; t++ {
			for _, row := range [][]float32{s.row(c.x, d, e, t), s.row(c.z, g, e, t), s.row(c.dy, h, e, t)} {
				for i := range row {
					row[i] = float32(math.NaN())
				}
			}
		}
	}
	return c
}

func (c *lstmCase) run() {
	in := LSTMInput{Z: c.z}
	if c.Input > 0 {
		in = LSTMInput{X: c.x, W: c.wx, Bias: c.bias}
	}
	LSTM(c.LSTMShape, c.gates, c.y, c.cells, in, c.w, c.lengths, c.scratch)
	LSTMGrad(c.LSTMShape, c.dz, c.dx, c.dy, c.gates, c.cells, c.wx, c.w, c.lengths, c.gradScratch)
	Previous(c.LSTMShape, c.previous, c.y)
	if c.Input > 0 && c.lengths == nil { // padding has zeros in x there
		LSTMWeightGrad(c.LSTMShape, c.dwx, c.dbias, c.dw, c.x, c.y, c.dz, 0, 4*c.Hidden, c.wScratch)
	}
}

func eachLSTM(f func(c *lstmCase)) {
	var all []*lstmCase
	for _, hidden := range []int{1, 3, 16, 19, 33} {
		for _, input := range []int{0, 1, 5, 34} {
			for _, reverse := range []bool{false, true} {
				for _, lengths := range [][]int32{nil, {4, 0, 2, 6, 5}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}} {
					s := LSTMShape{Examples: 5, Time: 6, Hidden: hidden, Input: input, Reverse: reverse}
					all = append(all, newLSTMCase(s, lengths))
				}
			}
		}
	}
	for _, c := range some(all) {
		f(c)
	}
}

// One example gives the bits that it has among others, and with another padding.
func TestLSTMOfEachExample(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		eachLSTM(func(c *lstmCase) {
			c.run()
			for e := range c.Examples {
				s := c.LSTMShape
				s.Examples, s.Time = 1, max(1, s.length(c.lengths, e))
				o := newLSTMCase(s, nil)
				if c.lengths != nil {
					o.lengths = c.lengths[e : e+1]
				}
				part := func(x []float32, width int) []float32 { return x[e*c.Time*width:][:s.Time*width] }
				copy(o.x, part(c.x, s.Input))
				copy(o.z, part(c.z, 4*s.Hidden))
				copy(o.dy, part(c.dy, s.Hidden))
				o.wx, o.bias, o.w = c.wx, c.bias, c.w
				o.run()
				sameBits(t, fmt.Sprintf("%v, example %d", c, e), [][]float32{
					part(c.gates, 4*s.Hidden), part(c.y, s.Hidden), part(c.cells, s.Hidden), part(c.dz, 4*s.Hidden), part(c.dx, s.Input),
				}, o.results()[:5])
			}
		})
	})
}

// Projecting inside the loop gives the bits of projecting before it, where the sums have
// the same order: the states, and the gradients of the projections and of the input.
func TestLSTMInsideHasTheBits(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		eachLSTM(func(c *lstmCase) {
			if c.Input == 0 || c.lengths != nil {
				return
			}
			c.run()
			s := c.LSTMShape
			s.Input = 0
			o := newLSTMCase(s, nil)
			g, rows := 4*s.Hidden, s.Examples*s.Time
			scratch := make([]float32, GemmScratch(rows, g, max(c.Input, g))+GemmScratch(rows, c.Input, g))
			Gemm(rows, g, c.Input, c.x, c.Input, 1, c.wx, g, 1, o.z, g, false, scratch, nil)
			AddBias(o.z, o.z, c.bias, rows, g, g)
			o.w, o.dy = c.w, c.dy
			o.run()
			o.dx = make([]float32, len(c.dx))
			Gemm(rows, c.Input, g, o.dz, g, 1, c.wx, 1, g, o.dx, c.Input, false, scratch, nil)
			sameBits(t, c.String(), o.results()[:6], c.results()[:6])
		})
	})
}

// The columns of the weights' gradients may be cut anywhere.
func TestLSTMWeightGradByColumns(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		c := newLSTMCase(LSTMShape{Examples: 5, Time: 6, Hidden: 19, Input: 7, Reverse: true}, nil)
		o := newLSTMCase(c.LSTMShape, nil)
		c.run()
		copy(o.y, c.y)
		copy(o.dz, c.dz)
		for _, cut := range [][2]int{{0, 5}, {5, 64}, {64, 76}} {
			LSTMWeightGrad(o.LSTMShape, o.dwx, o.dbias, o.dw, o.x, o.y, o.dz, cut[0], cut[1], o.wScratch)
		}
		sameBits(t, "by columns", o.results()[6:], c.results()[6:])
	})
}

func TestLSTMAllocatesNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		c := newLSTMCase(LSTMShape{Examples: 5, Time: 6, Hidden: 19, Input: 7}, nil)
		testkit.Equal(t, testing.AllocsPerRun(5, c.run), 0, "allocations")
	})
}
