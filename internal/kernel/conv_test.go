package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"gpipebench/internal/testkit"
)

// convShapes are geometries of every kind: kernels of one, two, three and seven
// pixels, various strides, odd sizes, padding that is larger on one side,
// crops, kernels larger than the image, and channels around all tile widths.
func convShapes() []Window {
	var shapes []Window
	add := func(c Window, bottom, right int) {
		c.OH = (c.H+c.Top+bottom-c.KH)/c.StrideH + 1
		c.OW = (c.W+c.Left+right-c.KW)/c.StrideW + 1
		shapes = append(shapes, c)
	}
	channels := []int{1, 3, 8, 16, 17, 32, 33, 64, 70, 5}
	i := 0
	for _, k := range [][2]int{{1, 1}, {3, 3}, {1, 7}, {7, 1}, {7, 7}, {2, 2}} {
		for _, s := range [][2]int{{1, 1}, {2, 2}, {1, 2}, {3, 2}, {3, 3}} {
			for _, size := range [][2]int{{7, 7}, {9, 6}, {4, 17}} {
				c := Window{
					N: 1 + i%3, H: size[0], W: size[1], C: channels[i*7%10],
					KH: k[0], KW: k[1], StrideH: s[0], StrideW: s[1],
					Top: (k[0] - 1) / 2, Left: (k[1] - 1) / 2, O: channels[(i*3+i/10)%10],
				}
				if c.H+c.Top+k[0]/2 < k[0] || c.W+c.Left+k[1]/2 < k[1] {
					continue
				}
				add(c, k[0]/2, k[1]/2)
				i++
			}
		}
	}
	for _, c := range []struct {
		Window
		bottom, right int
	}{
		// Crops; taps that never meet the image, outputs without any tap.
		{Window{N: 2, H: 8, W: 8, C: 16, KH: 1, KW: 1, StrideH: 2, StrideW: 2, Top: -1, Left: -1, O: 8}, 1, 1},
		{Window{N: 2, H: 7, W: 9, C: 5, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: -1, Left: -2, O: 33}, -1, 0},
		{Window{N: 2, H: 2, W: 2, C: 33, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, O: 40}, 1, 1},
		{Window{N: 3, H: 1, W: 2, C: 4, KH: 5, KW: 7, StrideH: 1, StrideW: 1, Top: 6, Left: 9, O: 3}, 7, 8},
		{Window{N: 1, H: 2, W: 3, C: 4, KH: 2, KW: 2, StrideH: 4, StrideW: 5, Top: 3, Left: 6, O: 20}, 9, 9},
		{Window{N: 1, H: 2, W: 30, C: 2, KH: 11, KW: 1, StrideH: 1, StrideW: 1, Top: 10, O: 3}, 10, 0},
		// 1 x 1 kernels that are a plain product, and that are not.
		{Window{N: 3, H: 5, W: 7, C: 33, KH: 1, KW: 1, StrideH: 1, StrideW: 1, O: 17}, 0, 0},
		{Window{N: 3, H: 5, W: 7, C: 8, KH: 1, KW: 1, StrideH: 1, StrideW: 1, Top: 1, O: 17}, 1, 0},
		// Several blocks of k and of columns; lines of A on the same cache
		// sets.
		{Window{N: 2, H: 20, W: 19, C: 3, KH: 3, KW: 2, StrideH: 1, StrideW: 2, Top: 1, Left: 1, O: 5}, 1, 1},
		{Window{N: 2, H: 3, W: 5, C: 3, KH: 2, KW: 3, StrideH: 1, StrideW: 1, Left: 1, O: 530}, 0, 1},
		{Window{N: 2, H: 3, W: 5, C: 530, KH: 2, KW: 1, StrideH: 1, StrideW: 1, O: 3}, 0, 0},
		{Window{N: 9, H: 2, W: 2, C: 256, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, O: 9}, 1, 1},
		{Window{N: 3, H: 2, W: 2, C: 256, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, O: 70}, 1, 1},
		{Window{N: 2, H: 2, W: 9, C: 256, KH: 2, KW: 2, StrideH: 1, StrideW: 4, O: 66}, 0, 0},
	} {
		add(c.Window, c.bottom, c.right)
	}
	return some(shapes)
}

func (c Window) sizes() (x, y, w int) {
	return c.N * c.H * c.W * c.C, c.N * c.OH * c.OW * c.O, c.KH * c.KW * c.C * c.O
}

func randomFloats(seed uint64, n int) []float32 {
	return normals(rand.New(rand.NewPCG(seed, uint64(n))), n, 0, 1)
}

// A convCase is one of a convolution's three products.
type convCase struct {
	Window
	kind       string
	accumulate bool
	out, l, r  []float32
}

func convCases(c Window) []*convCase {
	x, y, w := c.sizes()
	xs, ys, ws := randomFloats(1, x), randomFloats(2, y), randomFloats(3, w)
	return []*convCase{
		{c, "forward", false, randomFloats(4, y), xs, ws},
		{c, "input-grad", false, randomFloats(4, x), ys, ws},
		{c, "weight-grad", false, randomFloats(4, w), xs, ys},
		{c, "weight-grad", true, randomFloats(4, w), xs, ys},
	}
}

func (c *convCase) scratch(parts int) int {
	switch c.kind {
	case "forward":
		return ConvForwardScratch(c.Window, parts)
	case "input-grad":
		return ConvGradInputScratch(c.Window, parts)
	}
	return ConvGradWeightScratch(c.Window, parts)
}

func (c *convCase) part(out []float32, part, parts int, scratch []float32) {
	switch c.kind {
	case "forward":
		ConvForward(c.Window, out, c.l, c.r, part, parts, scratch)
	case "input-grad":
		ConvGradInput(c.Window, out, c.l, c.r, part, parts, scratch)
	default:
		ConvGradWeight(c.Window, out, c.l, c.r, c.accumulate, part, parts, scratch)
	}
}

// run returns the output computed in parts, each with exactly the promised
// scratch.
func (c *convCase) run(parts int) []float32 {
	out := append([]float32(nil), c.out...)
	scratch := make([]float32, c.scratch(parts))
	for part := range parts {
		for i := range scratch {
			scratch[i] = float32(math.NaN())
		}
		c.part(out, part, parts, scratch)
	}
	return out
}

// want returns the output by the contract, each element one chain.
func (c *convCase) want() []float32 {
	chain := make([]float32, len(c.out))
	if c.accumulate {
		copy(chain, c.out)
	}
	c.eachProduct(func(x, y, w int) {
		to, l, r := y, x, w
		switch c.kind {
		case "input-grad":
			to, l = x, y
		case "weight-grad":
			to, r = w, y
		}
		chain[to] = mulAdd(c.l[l], c.r[r], chain[to])
	})
	return chain
}

// eachTap calls f with the indices of the pixels of x and y and of the tap that meet. The order is as in
// the chains of all three products: along oh and ow ascending, kh and kw descend for a pixel of x.
func (c Window) eachTap(f func(x, y, tap int)) {
	for row := range c.N * c.OH {
		n, oh := row/c.OH, row%c.OH
		for ow := range c.OW {
			for kh := range c.KH {
				for kw := range c.KW {
					ih, iw := oh*c.StrideH+kh*max(1, c.Dilation)-c.Top, ow*c.StrideW+kw*max(1, c.Dilation)-c.Left
					if ih >= 0 && ih < c.H && iw >= 0 && iw < c.W {
						f((n*c.H+ih)*c.W+iw, row*c.OW+ow, kh*c.KW+kw)
					}
				}
			}
		}
	}
}

// eachProduct calls f with the indices of the elements of x, y and w that a convolution multiplies.
func (c Window) eachProduct(f func(x, y, w int)) {
	c.eachTap(func(x, y, tap int) {
		for i := range c.C {
			for o := range c.O {
				f(x*c.C+i, y*c.O+o, (tap*c.C+i)*c.O+o)
			}
		}
	})
}

func (c *convCase) same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	sameBits(t, fmt.Sprintf("%s %+v, %s", c.kind, c.Window, what), [][]float32{got}, [][]float32{want})
}

func TestConv(t *testing.T) {
	type wanted struct {
		*convCase
		chain []float32
	}
	var cases []wanted
	for _, shape := range convShapes() {
		for _, c := range convCases(shape) {
			cases = append(cases, wanted{c, c.want()})
		}
	}
	eachGemm(t, func(t *testing.T) {
		for _, c := range cases {
			for parts := 1; parts <= 5; parts++ {
				c.same(t, fmt.Sprintf("%d parts", parts), c.run(parts), c.chain)
			}
		}
	})
}

// The table's kernel of panels does every product, and none with pixels
// outside the image.
func TestConvProfile(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		panels, products := gemm.panels, 0
		gemm.panels = func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int) {
			panels(rows, n, k, a, aLine, aStep, b, bStep, bPanel, c, ldc, load, more)
			for run := more; len(run) > 0; run = run[runInts:] {
				k += run[runK]
			}
			products += rows * n * k
		}
		for _, shape := range convShapes() {
			want := 0
			shape.eachProduct(func(_, _, _ int) { want++ })
			for _, c := range convCases(shape) {
				products = 0
				c.run(1)
				testkit.Equal(t, products, want, "%s %+v: products in panels", c.kind, c.Window)
			}
		}
	})
}

// Images are read in place, and not packed, if their lines fall on different
// cache sets.
func TestConvReadsInPlace(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		if !gemm.strided {
			t.Skip("packs always")
		}
		panels := gemm.panels
		for _, c := range convCases(Window{N: 2, H: 9, W: 9, C: 48, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, OH: 9, OW: 9, O: 80}) {
			begin, end := address(c.l), address(c.l)+4*uintptr(len(c.l))
			gemm.panels = func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, y []float32, ldc int, load bool, more []int) {
				if at := address(a); at < begin || at >= end {
					t.Fatalf("%s multiplies a copy", c.kind)
				}
				panels(rows, n, k, a, aLine, aStep, b, bStep, bPanel, y, ldc, load, more)
			}
			c.run(1)
		}
	})
}

func address(x []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }

func TestConvOfNoExamples(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, c := range convCases(Window{H: 4, W: 4, C: 3, KH: 3, KW: 3, StrideH: 2, StrideW: 1, Top: 1, Left: 1, OH: 2, OW: 4, O: 5}) {
			want := c.out
			if c.kind == "weight-grad" && !c.accumulate {
				want = make([]float32, len(c.out))
			}
			c.same(t, "no examples", c.run(2), want)
		}
	})
}

func TestConvAllocatesNothing(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, c := range convCases(Window{N: 2, H: 9, W: 9, C: 32, KH: 3, KW: 3, StrideH: 2, StrideW: 2, Top: 1, Left: 1, OH: 5, OW: 5, O: 40}) {
			scratch := make([]float32, c.scratch(2))
			testkit.Equal(t, testing.AllocsPerRun(5, func() { c.part(c.out, 1, 2, scratch) }), 0, "%s: allocations", c.kind)
		}
	})
}
