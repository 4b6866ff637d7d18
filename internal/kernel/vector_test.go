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

// Every vector kernel is described once, by a vectorKernel, and every
// implementation that the processor supports goes through the same tests: the
// bits against its definition (TestContract), and against those of other places of
// the operands and other cuts of the work.

type layout int

const (
	asMatrix  layout = iota // (rows, cols) with leading dimension ld
	perRow                  // (rows, width)
	perColumn               // (cols), or (width, cols) if nothing cuts the columns
)

type role int

const (
	reads role = iota
	writes
	updates
)

type operand struct {
	role     role
	layout   layout
	width    int  // of perRow and perColumn
	positive bool // positive random values
}

// A cut is the part of a problem that one call processes.
type cut struct{ row, col, rows, cols, ld int }

type vectorKernel struct {
	name     string
	operands []operand
	flat     bool  // any cut of the elements, which are the rows of a problem with one column
	byRow    bool  // may be cut between rows
	byColumn bool  // and between columns; ld may be larger than cols
	aliases  []int // inputs that operand 0 may be
	call     func(o [][]float32, c cut)
}

func vectorKernels() []vectorKernel {
	return slices.Concat(elementwiseKernels(), columnKernels(), reduceKernels(), normKernels(),
		batchNormKernels(), crossEntropyKernels(), dropoutKernels(), optimizerKernels(), gatedKernels())
}

func use(i *implementation) { inUse, gemm, vector, attention = i, i.gemm, i.vector, i.attention }

// eachProfile runs f with each implementation that the processor has.
func eachProfile(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer use(inUse)
	for _, i := range implementations() {
		use(i)
		t.Run(i.profile, f)
	}
}

func eachKernel(t *testing.T, f func(t *testing.T, k vectorKernel)) {
	t.Helper()
	eachProfile(t, func(t *testing.T) {
		for _, k := range vectorKernels() {
			t.Run(k.name, func(t *testing.T) { f(t, k) })
		}
	})
}

// shapes returns problems around the sizes of vectors and blocks.
func (k vectorKernel) shapes() []cut {
	var s []cut
	if k.flat {
		for n := range 150 {
			s = append(s, cut{rows: n, cols: 1, ld: 1})
		}
		return some(append(s, cut{rows: 1023, cols: 1, ld: 1}))
	}
	for _, rows := range []int{1, 3, 5, 9} { // column reductions take four at once
		for _, cols := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 79, 100, 128, 131, 257} {
			s = append(s, cut{rows: rows, cols: cols, ld: cols})
			if k.byColumn {
				s = append(s, cut{rows: rows, cols: cols, ld: cols + 3})
			}
		}
	}
	return some(s)
}

func (o operand) length(c cut) int {
	switch {
	case o.layout == perColumn:
		return c.cols * max(o.width, 1)
	case o.layout == perRow:
		return c.rows * max(o.width, 1)
	case c.rows == 0:
		return 0
	}
	return (c.rows-1)*c.ld + c.cols
}

// part returns the operand of the call c as a part of the whole problem's.
func (o operand) part(whole []float32, c cut) []float32 {
	var from int
	switch o.layout {
	case perColumn:
		from = c.col
	case perRow:
		from = c.row * max(o.width, 1)
	default:
		from = c.row*c.ld + c.col
	}
	n := o.length(c)
	return whole[from : from+n : from+n]
}

// untouched fills outputs before a call; gaps between rows must keep this
// value.
var untouched = math.Float32frombits(0x7fc0beef)

// fill returns the operands' values for a problem, the same in each call.
func (k vectorKernel) fill(c cut) [][]float32 {
	random := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.cols)))
	values := make([][]float32, len(k.operands))
	for i, o := range k.operands {
		values[i] = make([]float32, o.length(c))
		for e := range values[i] {
			v := float32(1.5 * random.NormFloat64())
			switch {
			case o.role == writes:
				v = untouched
			case o.positive:
				v = max(v, -v)
			}
			values[i][e] = v
		}
	}
	return values
}

// run calls the kernel for the parts of a problem, on copies of the values in
// memory from place, and returns the copies.
func (k vectorKernel) run(values [][]float32, place func(n int) []float32, parts ...cut) [][]float32 {
	whole := make([][]float32, len(values))
	for i := range values {
		whole[i] = place(len(values[i]))
		copy(whole[i], values[i])
	}
	args := make([][]float32, len(values))
	for _, c := range parts {
		for i, o := range k.operands {
			args[i] = o.part(whole[i], c)
		}
		k.call(args, c)
	}
	return whole
}

func onHeap(n int) []float32 { return make([]float32, n) }

func sameBits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	for i := range want {
		for e := range want[i] {
			if g, w := math.Float32bits(got[i][e]), math.Float32bits(want[i][e]); g != w {
				t.Fatalf("%s: operand %d element %d is %v (%#x), in one call %v (%#x)", what, i, e, got[i][e], g, want[i][e], w)
			}
		}
	}
}

// closeTo reports whether got equals want up to ulps of 2^-24 relative to
// max(|want|, floor), and up to half the smallest denormal. NaN and infinities
// must agree.
func closeTo(got float32, want, ulps, floor float64) bool {
	if math.IsNaN(want) || got != got {
		return math.IsNaN(want) && got != got
	}
	if g := float64(got); math.IsInf(g, 0) || math.IsInf(float64(float32(want)), 0) {
		return got == float32(want)
	}
	return math.Abs(float64(got)-want) <= ulps*0x1p-24*max(math.Abs(want), floor)+0x1p-149
}

// specialValues are the special values of float32 and their neighbours.
var specialValues = []float32{
	float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1.fffffep-127, -0x1.8p-128,
	math.MaxFloat32, -math.MaxFloat32, 1, -1, 2.5, -2.5, 30, -30, 100, -100,
}

func TestVectorBitsWhereverOperandsLie(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		for _, c := range k.shapes() {
			values := k.fill(c)
			whole := k.run(values, onHeap, c)
			for offset := range 18 {
				buffers := [][]float32{}
				got := k.run(values, func(n int) []float32 {
					b := make([]float32, n+offset+32)
					for i := range b {
						b[i] = untouched
					}
					buffers = append(buffers, b)
					return b[offset : offset+n : offset+n]
				}, c)
				sameBits(t, fmt.Sprintf("%+v at offset %d", c, offset), got, whole)
				for i, b := range buffers {
					for e, v := range b {
						inside := offset <= e && e < offset+len(values[i])
						if !inside && math.Float32bits(v) != math.Float32bits(untouched) {
							t.Fatalf("%+v at offset %d: operand %d: wrote outside, at %d", c, offset, i, e-offset)
						}
					}
				}
			}
		}
	})
}

func TestVectorBitsWhenRowsAreCut(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		if !k.flat && !k.byRow {
			t.Skip("is not cut by rows")
		}
		for _, c := range k.shapes() {
			values := k.fill(c)
			whole := k.run(values, onHeap, c)
			for at := 1; at < min(c.rows, 150); at++ {
				first, second := c, c
				first.rows, second.row, second.rows = at, at, c.rows-at
				sameBits(t, fmt.Sprintf("%+v cut at row %d", c, at), k.run(values, onHeap, first, second), whole)
			}
		}
	})
}

func TestVectorBitsWhenColumnsAreCut(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		if !k.byColumn {
			t.Skip("is not cut by columns")
		}
		for _, c := range k.shapes() {
			values := k.fill(c)
			whole := k.run(values, onHeap, c)
			for at := 1; at < c.cols; at += 1 + c.cols/100*6 {
				left, right := c, c
				left.cols, right.col, right.cols = at, at, c.cols-at
				sameBits(t, fmt.Sprintf("%+v cut at column %d", c, at), k.run(values, onHeap, left, right), whole)
			}
		}
	})
}

// The output may be any input for which the kernel's comment allows it.
func TestVectorBitsInPlace(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		for _, c := range k.shapes() {
			values := k.fill(c)
			for _, alias := range k.aliases {
				copy(values[0], values[alias]) // for the gaps between rows
				want := k.run(values, onHeap, c)
				args := k.run(values, onHeap)
				args[0] = args[alias]
				k.call(args, c)
				sameBits(t, fmt.Sprintf("%+v: output is operand %d", c, alias), args[:1], want[:1])
			}
		}
	})
}

func TestVectorKernelsAllocateNothing(t *testing.T) {
	eachKernel(t, func(t *testing.T, k vectorKernel) {
		c := cut{rows: 5, cols: 70, ld: 70}
		if k.flat {
			c.cols, c.ld = 1, 1
		}
		values := k.fill(c)
		testkit.Equal(t, testing.AllocsPerRun(10, func() { k.call(values, c) }), 0, "allocations")
	})
}

// Each entry of each table is the function of that name and profile. Three kernels have no NEON.
func TestVectorTablesHoldTheirProfile(t *testing.T) {
	suffix := map[string]string{"avx512": "AVX512", "avx2": "AVX2", "neon": "NEON", "generic": "Generic"}
	for _, implementation := range implementations() {
		v := reflect.ValueOf(implementation.vector)
		for i := range v.NumField() {
			if v.Field(i).Kind() != reflect.Func {
				continue
			}
			want := v.Type().Field(i).Name + suffix[implementation.profile]
			switch want {
			case "normStatsNEON", "normStatsTallyNEON", "normTotalsNEON":
				want = v.Type().Field(i).Name + "Generic"
			}
			name := runtime.FuncForPC(v.Field(i).Pointer()).Name()
			if name = name[strings.LastIndexByte(name, '.')+1:]; name != want {
				t.Errorf("%s: entry is %s, want %s", implementation.profile, name, want)
			}
		}
	}
}

func BenchmarkVector(b *testing.B) {
	defer use(inUse)
	for _, k := range vectorKernels() {
		for _, size := range []string{"64KiB", "32MiB"} {
			c := cut{rows: 64, cols: 256, ld: 256} // of each operand
			if size == "32MiB" {
				c.rows = 1 << 15
			}
			if k.flat {
				c.rows, c.cols, c.ld = c.rows*c.cols, 1, 1
			}
			values := k.fill(c)
			var bytes int64
			for i, o := range k.operands {
				bytes += int64(4 * len(values[i]))
				if o.role == updates {
					bytes += int64(4 * len(values[i]))
				}
			}
			for _, i := range implementations() {
				b.Run(k.name+"/size="+size+"/profile="+i.profile, func(b *testing.B) {
					use(i)
					b.SetBytes(bytes)
					for b.Loop() {
						k.call(values, c)
					}
				})
			}
		}
	}
}
