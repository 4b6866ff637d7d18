package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// convShapes are geometries of every kind: kernels of one, two, three and
// seven pixels, strides apart, odd sizes, padding that is larger on one side,
// crops, kernels larger than the image, and channels around all tiles' widths.
func convShapes() []Conv {
	var shapes []Conv
	add := func(c Conv, bottom, right int) {
		c.OH = (c.H+c.Top+bottom-c.KH)/c.StrideH + 1
		c.OW = (c.W+c.Left+right-c.KW)/c.StrideW + 1
		shapes = append(shapes, c)
	}
	channels := []int{1, 3, 8, 16, 17, 32, 33, 64, 70, 5}
	i := 0
	for _, k := range [][2]int{{1, 1}, {3, 3}, {1, 7}, {7, 1}, {7, 7}, {2, 2}} {
		for _, s := range [][2]int{{1, 1}, {2, 2}, {1, 2}, {3, 2}, {3, 3}} {
			for _, size := range [][2]int{{7, 7}, {9, 6}, {4, 17}} {
				c := Conv{
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
	add(Conv{N: 2, H: 8, W: 8, C: 16, KH: 1, KW: 1, StrideH: 2, StrideW: 2, Top: -1, Left: -1, O: 8}, 0, 0)
	add(Conv{N: 2, H: 7, W: 9, C: 5, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: -1, Left: -2, O: 33}, -1, 0)
	add(Conv{N: 2, H: 2, W: 2, C: 33, KH: 3, KW: 3, StrideH: 1, StrideW: 1, Top: 1, Left: 1, O: 40}, 1, 1)
	add(Conv{N: 3, H: 1, W: 2, C: 4, KH: 5, KW: 7, StrideH: 1, StrideW: 1, Top: 6, Left: 9, O: 3}, 7, 8)
	add(Conv{N: 1, H: 2, W: 3, C: 4, KH: 2, KW: 2, StrideH: 4, StrideW: 5, Top: 3, Left: 6, O: 20}, 9, 9)
	return shapes
}

func (c Conv) sizes() (x, y, w int) {
	return c.N * c.H * c.W * c.C, c.N * c.OH * c.OW * c.O, c.KH * c.KW * c.C * c.O
}

func randomFloats(seed uint64, n int) []float32 {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// A convCase is one of a convolution's three products.
type convCase struct {
	Conv
	kind       string
	accumulate bool
	out, l, r  []float32
}

func convCases(c Conv) []*convCase {
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
		return ConvForwardScratch(c.Conv, parts)
	case "input-grad":
		return ConvGradInputScratch(c.Conv, parts)
	}
	return ConvGradWeightScratch(c.Conv, parts)
}

func (c *convCase) part(out []float32, part, parts int, scratch []float32) {
	switch c.kind {
	case "forward":
		ConvForward(c.Conv, out, c.l, c.r, part, parts, scratch)
	case "input-grad":
		ConvGradInput(c.Conv, out, c.l, c.r, part, parts, scratch)
	default:
		ConvGradWeight(c.Conv, out, c.l, c.r, c.accumulate, part, parts, scratch)
	}
}

// run returns the output in parts, each with as much scratch as promised.
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

// want returns the output and the sum of its products' magnitudes, in float64.
func (c *convCase) want() (want, magnitude []float64) {
	want, magnitude = make([]float64, len(c.out)), make([]float64, len(c.out))
	if c.accumulate {
		for i, x := range c.out {
			want[i] = float64(x)
		}
	}
	for n := range c.N {
		for oh := range c.OH {
			for ow := range c.OW {
				for kh := range c.KH {
					for kw := range c.KW {
						ih, iw := oh*c.StrideH+kh-c.Top, ow*c.StrideW+kw-c.Left
						if ih < 0 || ih >= c.H || iw < 0 || iw >= c.W {
							continue
						}
						x, y, w := ((n*c.H+ih)*c.W+iw)*c.C, ((n*c.OH+oh)*c.OW+ow)*c.O, (kh*c.KW+kw)*c.C*c.O
						for i := range c.C {
							for o := range c.O {
								to, l, r := y+o, x+i, w+i*c.O+o
								switch c.kind {
								case "input-grad":
									to, l = l, to
								case "weight-grad":
									to, r = r, to
								}
								product := float64(c.l[l]) * float64(c.r[r])
								want[to] += product
								magnitude[to] += math.Abs(product)
							}
						}
					}
				}
			}
		}
	}
	return want, magnitude
}

func TestConv(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, shape := range convShapes() {
			for _, c := range convCases(shape) {
				want, magnitude := c.want()
				for i, got := range c.run(1) {
					if diff := math.Abs(float64(got) - want[i]); !(diff <= 1e-6*(magnitude[i]+math.Abs(want[i]))) {
						t.Fatalf("%s %+v: element %d is %v, want %v", c.kind, c.Conv, i, got, want[i])
					}
				}
			}
		}
	})
}

func TestConvParts(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, shape := range convShapes() {
			for _, c := range convCases(shape) {
				want := c.run(1)
				for parts := 2; parts <= 5; parts++ {
					sameBits(t, fmt.Sprintf("%s %+v in %d parts", c.kind, c.Conv, parts), [][]float32{c.run(parts)}, [][]float32{want})
				}
			}
		}
	})
}
