package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gpipebench/internal/testkit"
)

// pools are geometries of every kind: whole windows, different padding on
// different sides, windows partly outside, pixels in no window, windows larger
// than the image.
var pools = []Window{
	{N: 1, H: 1, W: 1, KH: 1, KW: 1, StrideH: 1, StrideW: 1, OH: 1, OW: 1},
	{N: 2, H: 4, W: 6, KH: 2, KW: 2, StrideH: 2, StrideW: 2, OH: 2, OW: 3},
	{N: 1, H: 5, W: 7, KH: 2, KW: 2, StrideH: 2, StrideW: 2, OH: 2, OW: 3},                  // leaves pixels out
	{N: 2, H: 5, W: 5, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, OH: 5, OW: 5}, // SAME
	{N: 2, H: 6, W: 8, KH: 3, KW: 3, StrideH: 2, StrideW: 2, OH: 3, OW: 4},                  // SAME: padding after
	{N: 1, H: 7, W: 5, KH: 3, KW: 3, StrideH: 2, StrideW: 2, Top: 1, Left: 1, OH: 4, OW: 3}, // SAME, odd
	{N: 1, H: 8, W: 9, KH: 3, KW: 3, StrideH: 3, StrideW: 3, Top: 1, Left: 0, OH: 3, OW: 3}, // stride 3
	{N: 1, H: 3, W: 4, KH: 2, KW: 2, StrideH: 3, StrideW: 3, OH: 1, OW: 2},                  // gaps between windows
	{N: 1, H: 6, W: 11, KH: 1, KW: 5, StrideH: 1, StrideW: 2, Left: 2, OH: 6, OW: 6},        // flat
	{N: 1, H: 2, W: 3, KH: 5, KW: 7, StrideH: 1, StrideW: 1, Top: 2, Left: 3, OH: 2, OW: 3}, // larger than the image
	{N: 3, H: 4, W: 4, KH: 2, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 2, OH: 5, OW: 6}, // padding of all but one
}

// poolChannels are counts around the sizes of vectors.
var poolChannels = []int{1, 3, 8, 16, 21, 64, 75, 130}

// eachPool calls f with every geometry and every count of channels.
func eachPool(t *testing.T, f func(t *testing.T, p Window)) {
	t.Helper()
	eachProfile(t, func(t *testing.T) {
		for _, p := range pools {
			for _, p.C = range poolChannels {
				t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) { f(t, p) })
			}
		}
	})
}

func (p Window) inputs() int  { return p.N * p.H * p.W * p.C }
func (p Window) outputs() int { return p.N * p.OH * p.OW * p.C }

// eachWindow calls f for every output element in ascending order with the
// elements of its window in ascending order.
func (p Window) eachWindow(f func(out int, in []int)) {
	windows := make([][]int, p.N*p.OH*p.OW)
	p.eachTap(func(x, y, _ int) { windows[y] = append(windows[y], x) })
	for y, pixels := range windows {
		for c := range p.C {
			in := make([]int, len(pixels))
			for i, x := range pixels {
				in[i] = x*p.C + c
			}
			f(y*p.C+c, in)
		}
	}
}

// few returns values that are often the same.
func few(random *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(random.IntN(5) - 2)
		if v[i] == 0 && random.IntN(2) == 0 {
			v[i] = float32(math.Copysign(0, -1))
		}
	}
	return v
}

func normals(random *rand.Rand, n int, mean, deviation float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(mean + float64(deviation*random.NormFloat64()))
	}
	return v
}

func filled(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = untouched
	}
	return v
}

// Maxima are exact; so are the chains of additions in the gradient.
func TestMaxPool(t *testing.T) {
	eachPool(t, func(t *testing.T, p Window) {
		random := rand.New(rand.NewPCG(1, uint64(p.C)))
		for _, x := range [][]float32{few(random, p.inputs()), normals(random, p.inputs(), 0, 1)} {
			dy := normals(random, p.outputs(), 0, 1)
			y, dx := filled(p.outputs()), filled(p.inputs())
			MaxPool(y, x, p, 0, p.N*p.OH)
			MaxPoolGrad(dx, dy, x, y, p, 0, p.N, 0, p.C)
			want := make([]float32, p.inputs())
			p.eachWindow(func(out int, in []int) {
				first := in[0]
				for _, i := range in {
					if x[i] > x[first] {
						first = i
					}
				}
				if math.Float32bits(y[out]) != math.Float32bits(x[first]) {
					t.Fatalf("y[%d] is %v, want %v", out, y[out], x[first])
				}
				want[first] += dy[out]
			})
			sameBits(t, "gradient by the definition", [][]float32{dx}, [][]float32{want})
		}
	})
}

func TestMaxPoolOfNaNs(t *testing.T) {
	eachPool(t, func(t *testing.T, p Window) {
		random := rand.New(rand.NewPCG(2, uint64(p.C)))
		x := normals(random, p.inputs(), 0, 1)
		for i := range x {
			switch random.IntN(12) {
			case 0:
				x[i] = float32(math.NaN())
			case 1:
				x[i] = float32(math.Inf(1))
			case 2:
				x[i] = float32(math.Inf(-1))
			}
		}
		dy := make([]float32, p.outputs())
		for i := range dy {
			dy[i] = 1
		}
		y, dx := filled(p.outputs()), filled(p.inputs())
		MaxPool(y, x, p, 0, p.N*p.OH)
		MaxPoolGrad(dx, dy, x, y, p, 0, p.N, 0, p.C)
		var total float32
		for _, d := range dx {
			total += d
		}
		if total != float32(p.outputs()) {
			t.Fatalf("the gradients' sum is %v, want %v", total, p.outputs())
		}
		p.eachWindow(func(out int, in []int) {
			want := float32(math.Inf(-1))
			for _, i := range in {
				want = max(want, x[i]) // keeps NaN
			}
			if y[out] != want && !(y[out] != y[out] && want != want) {
				t.Fatalf("y[%d] is %v, want %v", out, y[out], want)
			}
		})
	})
}

func TestAvgPool(t *testing.T) {
	eachPool(t, func(t *testing.T, p Window) {
		random := rand.New(rand.NewPCG(3, uint64(p.C)))
		x, dy := normals(random, p.inputs(), 0, 1), normals(random, p.outputs(), 0, 1)
		y, dx := filled(p.outputs()), filled(p.inputs())
		AvgPool(y, x, p, 0, p.N*p.OH)
		AvgPoolGrad(dx, dy, p, 0, p.N, 0, p.C)
		want := make([]float64, p.inputs())
		p.eachWindow(func(out int, in []int) {
			var sum float64
			for _, i := range in {
				sum += float64(x[i])
				want[i] += float64(dy[out]) / float64(len(in))
			}
			if w := sum / float64(len(in)); !closeTo(y[out], w, 16, 1) {
				t.Fatalf("y[%d] is %v, want %v", out, y[out], w)
			}
		})
		for i, w := range want {
			if !closeTo(dx[i], w, 16, 1) {
				t.Fatalf("dx[%d] is %v, want %v", i, dx[i], w)
			}
		}
	})
}

// copiesAt returns what copies operands to where place says.
func copiesAt(place func(n int) []float32) func(v []float32) []float32 {
	return func(v []float32) []float32 {
		at := place(len(v))
		copy(at, v)
		return at
	}
}

// runPools returns all outputs of the pools, computed by calls for every rows,
// images or channels.
func runPools(p Window, place func(n int) []float32, every int) [][]float32 {
	random := rand.New(rand.NewPCG(4, uint64(p.C)))
	put := copiesAt(place)
	x, dy := put(few(random, p.inputs())), put(normals(random, p.outputs(), 0, 1))
	high, mean := put(filled(p.outputs())), put(filled(p.outputs()))
	dhigh, dmean := put(filled(p.inputs())), put(filled(p.inputs()))
	for from := 0; from < p.N*p.OH; from += every {
		to := min(from+every, p.N*p.OH)
		MaxPool(high, x, p, from, to)
		AvgPool(mean, x, p, from, to)
	}
	for n := 0; n < p.N; n += every {
		to := min(n+every, p.N)
		for c := 0; c < p.C; c += every {
			c1 := min(c+every, p.C)
			MaxPoolGrad(dhigh, dy, x, high, p, n, to, c, c1)
			AvgPoolGrad(dmean, dy, p, n, to, c, c1)
		}
	}
	return [][]float32{high, mean, dhigh, dmean}
}

func TestPoolBitsHoweverCut(t *testing.T) {
	eachPool(t, func(t *testing.T, p Window) {
		want := runPools(p, onHeap, 1<<20)
		for _, every := range []int{1, 2, 5, 16} {
			sameBits(t, fmt.Sprintf("cut every %d", every), runPools(p, onHeap, every), want)
		}
	})
}

func TestGlobalAvgPool(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, c := range poolChannels {
			for _, pixels := range []int{1, 4, 49} {
				const n = 3
				random := rand.New(rand.NewPCG(5, uint64(c)))
				x, dy := normals(random, n*pixels*c, 0, 1), normals(random, n*c, 0, 1)
				y, dx := filled(n*c), filled(n*pixels*c)
				GlobalAvgPool(y, x, n, pixels, c)
				GlobalAvgPoolGrad(dx, dy, n, pixels, c)
				for i := range n {
					for j := range c {
						var sum float64
						for k := range pixels {
							at := (i*pixels+k)*c + j
							sum += float64(x[at])
							if want := float64(dy[i*c+j]) / float64(pixels); !closeTo(dx[at], want, 2, 0) {
								t.Fatalf("dx[%d] is %v, want %v", at, dx[at], want)
							}
						}
						if want := sum / float64(pixels); !closeTo(y[i*c+j], want, 16, 1) {
							t.Fatalf("y[%d, %d] is %v, want %v", i, j, y[i*c+j], want)
						}
					}
				}
				// Image by image the bits are the same.
				one, done := filled(n*c), filled(n*pixels*c)
				for i := range n {
					GlobalAvgPool(one[i*c:], x[i*pixels*c:], 1, pixels, c)
					GlobalAvgPoolGrad(done[i*pixels*c:], dy[i*c:], 1, pixels, c)
				}
				sameBits(t, "image by image", [][]float32{one, done}, [][]float32{y, dx})
			}
		}
	})
}

func TestCopyColumns(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, c := range [][4]int{{1, 1, 1, 1}, {3, 5, 5, 5}, {4, 7, 9, 7}, {5, 16, 40, 16}, {6, 33, 33, 50}, {7, 64, 100, 70}} {
			rows, cols, ldd, lds := c[0], c[1], c[2], c[3]
			random := rand.New(rand.NewPCG(6, uint64(cols)))
			src, dst := normals(random, (rows-1)*lds+cols, 0, 1), filled((rows-1)*ldd+cols)
			CopyColumns(dst, ldd, src, lds, rows, cols)
			want := filled(len(dst))
			for i := range rows {
				for j := range cols {
					want[i*ldd+j] = src[i*lds+j]
				}
			}
			sameBits(t, fmt.Sprint(c), [][]float32{dst}, [][]float32{want})
		}
	})
}

func TestPoolsAndBatchNormAllocateNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		p := pools[3]
		p.C = 21
		x, y := make([]float32, p.inputs()), make([]float32, p.outputs())
		b := newBatchNormCase(300, 21, true)
		calls := func() {
			MaxPool(y, x, p, 0, p.N*p.OH)
			MaxPoolGrad(x, y, x, y, p, 0, p.N, 0, p.C)
			AvgPool(y, x, p, 0, p.N*p.OH)
			AvgPoolGrad(x, y, p, 0, p.N, 0, p.C)
			GlobalAvgPool(y, x, p.N, p.H*p.W, p.C)
			GlobalAvgPoolGrad(x, y, p.N, p.H*p.W, p.C)
			b.run()
		}
		testkit.Equal(t, testing.AllocsPerRun(10, calls), 0, "allocations")
	})
}
