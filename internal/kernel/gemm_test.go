package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// some draws a fifth of a test's cases under -short, the same ones in every run.
func some[T any](cases []T) []T {
	if !testing.Short() {
		return cases
	}
	var few []T
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(cases))[:(len(cases)+4)/5] {
		few = append(few, cases[i])
	}
	return few
}

// eachGemm runs a test with every implementation that this processor supports.
func eachGemm(t *testing.T, test func(t *testing.T)) {
	defer use(inUse)
	for _, i := range implementations() {
		use(i)
		t.Run(i.profile, test)
		if i.gemm.strided { // as on another vendor's processors
			use(i)
			gemm.far = !gemm.far
			t.Run(i.profile+"/other", test)
		}
	}
}

func TestGemmProfile(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		called, panels := "", gemm.panels
		name := runtime.FuncForPC(reflect.ValueOf(panels).Pointer()).Name()
		gemm.panels = func(rows, n, k int, a []float32, aLine, aStep int, b []float32, bStep, bPanel int, c []float32, ldc int, load bool, more []int) {
			called = name
			panels(rows, n, k, a, aLine, aStep, b, bStep, bPanel, c, ldc, load, more)
		}
		newGemmCase(gemmShape{m: 20, n: 40, k: 10}).run()
		if want := "gemmPanels" + Profile(); !strings.HasSuffix(strings.ToLower(called), strings.ToLower(want)) {
			t.Errorf("called %q, not %s", called, want)
		}
	})
}

// gemmShape is a product and the layout of its operands. The leading dimension
// of an operand is its rows' length, plus gap, rounded up to a multiple of
// align.
type gemmShape struct {
	m, n, k                            int
	transposeA, transposeB, accumulate bool
	gap, align                         int
}

func (s gemmShape) String() string {
	order := map[bool]string{false: "n", true: "t"}
	name := fmt.Sprintf("%dx%dx%d,%s%s", s.m, s.n, s.k, order[s.transposeA], order[s.transposeB])
	if s.accumulate {
		name += "+"
	}
	return fmt.Sprintf("%s,gap=%d,align=%d", name, s.gap, s.align)
}

// A gemmCase is a shape with its operands, without spare elements.
type gemmCase struct {
	gemmShape
	a, b, c, scratch        []float32
	ars, acs, brs, bcs, ldc int
	epilogue                func(i0, i1, j0, j1 int)
}

func newGemmCase(s gemmShape) *gemmCase {
	random := rand.New(rand.NewPCG(uint64(s.m*1000+s.n), uint64(s.k)))
	matrix := func(rows, cols int, transpose bool) (x []float32, rowStride, colStride int) {
		contiguous, others := cols, rows
		if transpose {
			contiguous, others = rows, cols
		}
		ld := roundUp(contiguous+s.gap, max(s.align, 1))
		if rows*cols > 0 {
			x = normals(random, (others-1)*ld+contiguous, 0, 1)
		}
		if transpose {
			return x, 1, ld
		}
		return x, ld, 1
	}
	c := &gemmCase{gemmShape: s}
	c.a, c.ars, c.acs = matrix(s.m, s.k, s.transposeA)
	c.b, c.brs, c.bcs = matrix(s.k, s.n, s.transposeB)
	c.c, c.ldc, _ = matrix(s.m, s.n, false)
	c.scratch = make([]float32, GemmScratch(s.m, s.n, s.k))
	for i := range c.scratch {
		c.scratch[i] = float32(math.NaN())
	}
	return c
}

func (c *gemmCase) run() {
	Gemm(c.m, c.n, c.k, c.a, c.ars, c.acs, c.b, c.brs, c.bcs, c.c, c.ldc, c.accumulate, c.scratch, c.epilogue)
}

// want returns C by the contract: each element one chain, and the elements
// between the rows unchanged.
func (c *gemmCase) want() []float32 {
	want := append([]float32(nil), c.c...)
	for i := range c.m {
		for j := range c.n {
			x := float32(0)
			if c.accumulate {
				x = c.c[i*c.ldc+j]
			}
			for p := range c.k {
				x = mulAdd(c.a[i*c.ars+p*c.acs], c.b[p*c.brs+j*c.bcs], x)
			}
			want[i*c.ldc+j] = x
		}
	}
	return want
}

func (c *gemmCase) same(t *testing.T, want []float32) {
	t.Helper()
	for i := range want {
		if g, w := math.Float32bits(c.c[i]), math.Float32bits(want[i]); g != w && (c.c[i] == c.c[i] || want[i] == want[i]) {
			t.Fatalf("%v: C(%d,%d) is %v (%#x), want %v (%#x)", c.gemmShape, i/c.ldc, i%c.ldc, c.c[i], g, want[i], w)
		}
	}
}

// gemmShapes covers every height of a tile and every width of a tail, blocks in
// all three directions, and the paths for operands that are read in place and
// for those that are packed.
func gemmShapes() []gemmShape {
	var shapes []gemmShape
	add := func(m, n, k int) {
		shape := gemmShape{m: m, n: n, k: k, gap: (m + n + k) % 4}
		if (m+n+k)%3 == 0 {
			shape.align = cacheWay
		}
		for orientation := range 8 {
			shape.transposeA, shape.transposeB, shape.accumulate = orientation&1 != 0, orientation&2 != 0, orientation&4 != 0
			shapes = append(shapes, shape)
		}
	}
	for i := 1; i <= 70; i++ {
		add(i, 1+i*37%70, 1+i*23%70)
		add(1+i*29%70, i, 1+i*31%70)
	}
	for _, s := range [][3]int{
		{1, 1, 1}, {1, 1, 1000}, {1, 70, 70}, {70, 1, 70}, {70, 70, 1}, {14, 32, 8}, {6, 16, 256},
		{127, 131, 137}, {257, 40, 20}, {131, 67, 71}, {15, 1201, 17}, {16, 530, 270},
		{17, 33, 1100}, {3, 5, 513}, {64, 65, 300}, {300, 10, 257},
	} {
		add(s[0], s[1], s[2])
	}
	return some(shapes)
}

func TestGemm(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, s := range gemmShapes() {
			c := newGemmCase(s)
			want := c.want()
			c.run()
			c.same(t, want)
		}
	})
}

// The strides of a single row or column do not matter.
func TestGemmDegenerateStrides(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, s := range []gemmShape{{m: 1, n: 5, k: 9}, {m: 5, n: 1, k: 9}, {m: 5, n: 7, k: 1}, {m: 1, n: 1, k: 9}, {m: 1, n: 70, k: 1}} {
			for _, stride := range []int{0, 1, 3, 1000} {
				c := newGemmCase(gemmShape{m: s.m, n: s.n, k: s.k, gap: 3, transposeA: s.m == 1, transposeB: s.n != 1})
				if s.m == 1 {
					c.ars = stride
				}
				if s.n == 1 {
					c.bcs = stride
				}
				if s.k == 1 {
					c.acs, c.brs = stride, stride
				}
				want := c.want()
				c.run()
				c.same(t, want)
			}
		}
	})
}

// Special values propagate: denormals, infinities, NaN.
func TestGemmSpecialValues(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, x := range []float32{0, 1e-22, 1e-38, 1e38, float32(math.Inf(1)), float32(math.NaN())} {
			for _, transpose := range []bool{false, true} {
				c := newGemmCase(gemmShape{m: 29, n: 71, k: 19, transposeA: transpose, transposeB: transpose})
				for i := 0; i < len(c.a); i += 11 {
					c.a[i] *= x
				}
				for i := 0; i < len(c.b); i += 7 {
					c.b[i] *= x
				}
				want := c.want()
				c.run()
				c.same(t, want)
			}
		}
	})
}

func TestGemmEmpty(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, s := range []gemmShape{{m: 0, n: 3, k: 3}, {m: 3, n: 0, k: 3}, {m: 3, n: 3, k: 0}} {
			for _, accumulate := range []bool{false, true} {
				c := newGemmCase(gemmShape{m: 3, n: 3, k: 3, gap: 2, accumulate: accumulate})
				c.m, c.n, c.k = s.m, s.n, s.k
				want, blocks := c.want(), 0
				c.scratch = nil
				c.epilogue = func(i0, i1, j0, j1 int) { blocks += (i1 - i0) * (j1 - j0) }
				c.run()
				c.same(t, want)
				testkit.Equal(t, blocks, s.m*s.n, "%v: the epilogue saw", s)
			}
		}
	})
}

func TestGemmEpilogue(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, s := range []gemmShape{{m: 5, n: 9, k: 3}, {m: 200, n: 70, k: 300}, {m: 33, n: 1100, k: 600, accumulate: true}, {m: 1000, n: 3, k: 9}} {
			c := newGemmCase(s)
			want := newGemmCase(s)
			want.run()
			c.epilogue = func(i0, i1, j0, j1 int) {
				for i := i0; i < i1; i++ {
					for j := j0; j < j1; j++ {
						if got := c.c[i*c.ldc+j]; got != want.c[i*c.ldc+j] {
							t.Fatalf("%v: C(%d,%d) is not final, or in two blocks", s, i, j)
						}
						c.c[i*c.ldc+j] = float32(math.Inf(1))
					}
				}
			}
			c.run()
			for i, x := range c.c {
				if !math.IsInf(float64(x), 1) {
					t.Fatalf("%v: C(%d,%d) was in no block", s, i/c.ldc, i%c.ldc)
				}
			}
		}
	})
}

// Scratch grows with a product, and is planned for the profile that needs most.
func TestGemmScratch(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 7, 8, 9, 14, 15, 31, 32, 33, 128, 129, 255, 256, 257, 500, 511, 512, 513, 600, 1024, 5000}
	eachGemm(t, func(t *testing.T) {
		for _, x := range sizes {
			for _, y := range sizes {
				for i := range len(sizes) - 1 {
					z, more := sizes[i], sizes[i+1]
					if GemmScratch(z, x, y) > GemmScratch(more, x, y) || GemmScratch(x, z, y) > GemmScratch(x, more, y) || GemmScratch(x, y, z) > GemmScratch(x, y, more) {
						t.Fatalf("from %d to %d beside %d and %d", z, more, x, y)
					}
					if gemm.scratch(x, y, z) > planned.scratch(x, y, z) || gemm.convScratch(x, max(y, 1), z) > planned.convScratch(x, max(y, 1), z) {
						t.Fatalf("%d, %d and %d: more than is planned", x, y, z)
					}
				}
			}
		}
	})
}

func TestGemmAllocatesNothing(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		c := newGemmCase(gemmShape{m: 70, n: 70, k: 70, transposeB: true})
		calls := 0
		c.epilogue = func(i0, i1, j0, j1 int) { calls++ }
		testkit.Equal(t, testing.AllocsPerRun(10, c.run), 0, "allocations")
	})
}

// TestPackedAhead: a B that is packed ahead gives the bits of Gemm, whatever its blocks are.
func TestPackedAhead(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for _, s := range []struct{ m, n, k int }{{1, 33, 5}, {20, 40, 600}, {3, 1030, 257}, {16, 1200, 300}} {
			a, b, c := randomFloats(1, s.m*s.k), randomFloats(2, s.k*s.n), randomFloats(3, s.m*s.n)
			want, scratch := slices.Clone(c), make([]float32, GemmScratch(s.m, s.n, s.k))
			Gemm(s.m, s.n, s.k, a, s.k, 1, b, s.n, 1, want, s.n, true, scratch, nil)
			packed := packAhead(s.n, s.k, b, s.n, make([]float32, packedFloats(s.n, s.k)))
			multiply(s.m, s.n, s.k, a, s.k, packed, c, s.n, true, scratch)
			sameBits(t, fmt.Sprint(s), [][]float32{c}, [][]float32{want})
		}
	})
}
