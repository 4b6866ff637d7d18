package exactmath

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gpipebench/internal/testkit"
)

// function is one of the package's, what it replaces, and the range of the arguments that are
// used; Pow's first argument is drawn from the range, and its second from -6 to 6.
type function struct {
	name        string
	ours, maths func(x, y float64) float64
	low, high   float64
	hash        string // of the results over drawn arguments, see TestEverywhere
}

func one(f func(float64) float64) func(x, y float64) float64 {
	return func(x, _ float64) float64 { return f(x) }
}

var functions = []function{
	{"Exp", one(Exp), one(math.Exp), -746, 711, "a68273534273bc2a"},
	{"Log", one(Log), one(math.Log), 0, 3, "ec31ce33da208e04"},
	{"Log2", one(Log2), one(math.Log2), 0, 3, "d1bea9985b3ada6e"},
	{"Log1p", one(Log1p), one(math.Log1p), -1, 3, "ef8548dd69481d69"},
	{"Pow", Pow, math.Pow, 0, 10000, "da64eb27a981f988"},
	{"Sin", one(Sin), one(math.Sin), -1000, 1000, "df99a344f4c6efd6"},
	{"Cos", one(Cos), one(math.Cos), -1000, 1000, "61b06aee1284649c"},
	{"Erfinv", one(Erfinv), one(math.Erfinv), -1, 1, "22afc841fd2f06f5"},
}

// special are arguments at which a function changes its method, and those that are no ordinary
// numbers.
var special = []float64{
	0, 1, 2, 0.5, 1.5, 2.5, 0.85, 1 - 2e-11, 1 - 0x1p-53, 1 + 0x1p-52, 3, 10000, 1 << 53, 1<<53 + 2, 1 << 62, 1 << 63, 1 << 64, 1e300,
	math.Sqrt2, math.Sqrt2 - 1, math.Sqrt2/2 - 1, 1 - 0x1p-52, 3 - 0x1p-51, math.Sqrt2 / 2, math.Nextafter(math.Sqrt2/2, 1), math.Nextafter(math.Sqrt2-1, 0),
	0x1p-20, 0x1p-28, 0x1p-29, 0x1p-30, 0x1p-54, 0x1p-55, 0x1p-1022, 0x1p-1074, 0x1.8p-1060, math.MaxFloat64,
	709, 709.4, 709.45, 709.78271289338397, 709.79, 745.1, 745.14, 745.2, 1 << 29, 1<<29 - 1, math.Pi, math.Pi / 4, math.Pi / 2,
	math.Inf(1), math.NaN(),
}

// draw calls use with n arguments of a function: any number, and one of its range.
func (f *function) draw(n int, use func(x, y float64)) {
	random := rand.New(rand.NewPCG(1, 2))
	for range n / 2 {
		use(math.Float64frombits(random.Uint64()), math.Float64frombits(random.Uint64()))
		use(f.low+float64(random.Float64()*(f.high-f.low)), float64(12*random.Float64())-6)
	}
	for _, x := range special {
		for _, x := range []float64{x, -x} {
			for _, y := range special {
				use(x, y)
				use(x, -y)
			}
		}
	}
}

// TestAsMath compares with math on amd64, whose results these are, where the compiler does not fuse.
func TestAsMath(t *testing.T) {
	if runtime.GOARCH != "amd64" || fuses(1+0x1p-30, 1-0x1p-30, -1) {
		t.Skip("math has other results here than on amd64 without fusing (GOAMD64=v1)")
	}
	n := 4_000_000
	if testing.Short() {
		n = 400_000
	}
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			wrong := 0
			f.draw(n, func(x, y float64) {
				if (f.name == "Sin" || f.name == "Cos") && !(math.Abs(x) < maxAngle) {
					return
				}
				if got, want := f.ours(x, y), f.maths(x, y); math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
					if wrong++; wrong < 5 {
						t.Errorf("%s(%g, %g) is %x, want %x", f.name, x, y, got, want)
					}
				}
			})
			if wrong > 0 {
				t.Errorf("%d results differ", wrong)
			}
		})
	}
}

// fuses reports whether the compiler fuses x*y + z, which loses a bit that rounding the product
// keeps.
//
//go:noinline
func fuses(x, y, z float64) bool { return x*y+z != float64(x*y)+z }

// TestEverywhere compares the results of drawn arguments, by their SHA-256, with what amd64 gives.
func TestEverywhere(t *testing.T) {
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) {
			var results []byte
			f.draw(20_000, func(x, y float64) {
				result := f.ours(x, y)
				if result != result {
					result = math.NaN()
				}
				results = binary.LittleEndian.AppendUint64(results, math.Float64bits(result))
			})
			testkit.Equal(t, fmt.Sprintf("%x", sha256.Sum256(results))[:16], f.hash, "results")
		})
	}
}
