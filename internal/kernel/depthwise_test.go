package kernel

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
)

// depthwiseShapes are geometries of every kind: kernels of several sizes,
// strides and dilations, of which neither may divide the other, padding that is
// larger on one side, crops, kernels larger than the image, outputs without any
// tap and pixels that no output reads.
func depthwiseShapes() []Window {
	var shapes []Window
	add := func(d Window, bottom, right int) {
		d.OH = (d.H+d.Top+bottom-(d.KH-1)*d.Dilation-1)/d.StrideH + 1
		d.OW = (d.W+d.Left+right-(d.KW-1)*d.Dilation-1)/d.StrideW + 1
		shapes = append(shapes, d)
	}
	i := 0
	for _, k := range [][2]int{{1, 1}, {3, 3}, {5, 5}, {1, 7}, {7, 1}, {2, 2}} {
		for _, s := range [][2]int{{1, 1}, {2, 2}, {1, 2}, {3, 2}} {
			for dilation := 1; dilation <= 3; dilation++ {
				tall, wide := (k[0]-1)*dilation, (k[1]-1)*dilation
				for _, size := range [][2]int{{7, 7}, {4, 17}} {
					add(Window{
						N: 1 + i%3, H: size[0], W: size[1], KH: k[0], KW: k[1],
						StrideH: s[0], StrideW: s[1], Dilation: dilation, Top: tall / 2, Left: wide / 2,
					}, tall-tall/2, wide-wide/2)
					i++
				}
			}
		}
	}
	add(Window{N: 2, H: 8, W: 8, KH: 1, KW: 1, StrideH: 2, StrideW: 2, Dilation: 1, Top: -1, Left: -1}, 1, 1)
	add(Window{N: 2, H: 7, W: 9, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Dilation: 1, Top: -1, Left: -2}, -1, 0)
	add(Window{N: 3, H: 1, W: 2, KH: 5, KW: 7, StrideH: 1, StrideW: 1, Dilation: 1, Top: 6, Left: 9}, 7, 8)
	add(Window{N: 1, H: 2, W: 3, KH: 2, KW: 2, StrideH: 4, StrideW: 5, Dilation: 1, Top: 3, Left: 6}, 9, 9)
	add(Window{N: 2, H: 6, W: 5, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Dilation: 1}, 0, 0)
	add(Window{N: 1, H: 3, W: 70, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Dilation: 1, Top: 1, Left: 1}, 1, 1)
	return some(shapes)
}

// depthwiseChannels are counts around the sizes of vectors and blocks.
var depthwiseChannels = []int{1, 5, 8, 16, 21, 32, 67}

func eachDepthwise(t *testing.T, f func(t *testing.T, d Window)) {
	t.Helper()
	eachProfile(t, func(t *testing.T) {
		for i, d := range depthwiseShapes() {
			for j := range 2 {
				d.C = depthwiseChannels[(3*i+4*j)%len(depthwiseChannels)]
				t.Run(fmt.Sprintf("%+v", d), func(t *testing.T) { f(t, d) })
			}
		}
	})
}

// A depthwiseCase has the operands of all three products; dw is continued.
type depthwiseCase struct {
	Window
	x, w, dy []float32
	dw       []float32 // before
}

func newDepthwiseCase(d Window) depthwiseCase {
	x, y, w := d.N*d.H*d.W*d.C, d.N*d.OH*d.OW*d.C, d.KH*d.KW*d.C
	return depthwiseCase{d, randomFloats(1, x), randomFloats(3, w), randomFloats(2, y), randomFloats(4, w)}
}

// run returns y, dx, dw and the continued dw, computed by calls for every rows,
// or rows of the kernel and channels.
func (d depthwiseCase) run(place func(n int) []float32, every int) [][]float32 {
	put := copiesAt(place)
	x, w, dy := put(d.x), put(d.w), put(d.dy)
	y, dx := put(filled(len(d.dy))), put(filled(len(d.x)))
	dw, more := put(filled(len(d.w))), put(d.dw)
	for from := 0; from < d.N*d.OH; from += every {
		DepthwiseForward(d.Window, y, x, w, from, min(from+every, d.N*d.OH))
	}
	for from := 0; from < d.N*d.H; from += every {
		DepthwiseGradInput(d.Window, dx, dy, w, from, min(from+every, d.N*d.H))
	}
	for kh := 0; kh < d.KH; kh += every {
		for c := 0; c < d.C; c += every {
			DepthwiseGradWeight(d.Window, dw, x, dy, false, kh, min(kh+every, d.KH), c, min(c+every, d.C))
			DepthwiseGradWeight(d.Window, more, x, dy, true, kh, min(kh+every, d.KH), c, min(c+every, d.C))
		}
	}
	return [][]float32{y, dx, dw, more}
}

// want returns the same by the contract, each element one chain.
func (d depthwiseCase) want() [][]float32 {
	chains := [][]float32{make([]float32, len(d.dy)), make([]float32, len(d.x)), make([]float32, len(d.w)), append([]float32(nil), d.dw...)}
	d.eachChannel(func(x, y, w int) {
		add := func(i, to int, a, b float32) { chains[i][to] = mulAdd(a, b, chains[i][to]) }
		add(0, y, d.x[x], d.w[w])
		add(1, x, d.dy[y], d.w[w])
		add(2, w, d.x[x], d.dy[y])
		add(3, w, d.x[x], d.dy[y])
	})
	return chains
}

// eachChannel is eachTap for the elements that a depthwise convolution multiplies.
func (d Window) eachChannel(f func(x, y, w int)) {
	d.eachTap(func(x, y, tap int) {
		for c := range d.C {
			f(x*d.C+c, y*d.C+c, tap*d.C+c)
		}
	})
}

// TestDepthwise: the chains of the contract, however the calls are cut.
func TestDepthwise(t *testing.T) {
	eachDepthwise(t, func(t *testing.T, d Window) {
		c := newDepthwiseCase(d)
		chains := c.want()
		for _, every := range []int{1 << 20, 1, 2, 5, 16} {
			sameBits(t, fmt.Sprintf("cut every %d, by the definition", every), c.run(onHeap, every), chains)
		}
	})
}

// The profile's kernels do every product once, and none with pixels outside the
// image.
func TestDepthwiseProfile(t *testing.T) {
	eachDepthwise(t, func(t *testing.T, d Window) {
		products := 0
		forward, grad := vector.depthwise, vector.depthwiseGrad
		vector.depthwise = func(y, x, w []float32, pixels, cols, to, from, kh, kw, tap, skip, first, wtap, wskip int) {
			forward(y, x, w, pixels, cols, to, from, kh, kw, tap, skip, first, wtap, wskip)
			products += pixels * cols * kh * kw
		}
		vector.depthwiseGrad = func(dw, x, dy []float32, pixels, cols, to, from, kh, kw, tap, skip, wtap, wskip int) {
			grad(dw, x, dy, pixels, cols, to, from, kh, kw, tap, skip, wtap, wskip)
			products += pixels * cols * kh * kw
		}
		defer func() { vector.depthwise, vector.depthwiseGrad = forward, grad }()
		want := 0
		d.eachChannel(func(_, _, _ int) { want += 4 }) // of three products, one of them twice
		newDepthwiseCase(d).run(onHeap, 1<<20)
		testkit.Equal(t, products, want, "products")
	})
}

func TestDepthwiseOfNoExamples(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		c := newDepthwiseCase(Window{H: 4, W: 4, C: 3, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Dilation: 1, Top: 1, Left: 1, OH: 4, OW: 4})
		sameBits(t, "no examples", c.run(onHeap, 1<<20), [][]float32{nil, nil, make([]float32, 27), c.dw})
	})
}

func TestDepthwiseAllocatesNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		d := depthwiseShapes()[6]
		d.C = 21
		c := newDepthwiseCase(d)
		y, dx, dw := make([]float32, len(c.dy)), make([]float32, len(c.x)), make([]float32, len(c.w))
		calls := func() {
			DepthwiseForward(d, y, c.x, c.w, 0, d.N*d.OH)
			DepthwiseGradInput(d, dx, c.dy, c.w, 0, d.N*d.H)
			DepthwiseGradWeight(d, dw, c.x, c.dy, true, 0, d.KH, 0, d.C)
		}
		testkit.Equal(t, testing.AllocsPerRun(5, calls), 0, "allocations")
	})
}
