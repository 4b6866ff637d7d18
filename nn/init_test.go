package nn_test

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

func draw(init nn.Initializer, shape ...int) []float32 {
	x := make([]float32, graph.Shape(shape).Elems())
	init(philox.NewStream(philox.KeyOf(1, "layer/weight"), 0), shape, x)
	return x
}

// TestInitMoments: mean, variance and limits of 60,000 draws. Four standard
// errors are the tolerance; that of a variance is sqrt((kurtosis-1)/n) of it,
// at most sqrt(2/n).
func TestInitMoments(t *testing.T) {
	const in, out = 200, 300
	for _, c := range []struct {
		name     string
		init     nn.Initializer
		shape    []int
		variance float64
		limit    float64 // no draw is larger
	}{
		{"uniform", nn.Uniform(0.5), []int{in, out}, 0.25 / 3, 0.5},
		{"normal", nn.Normal(0.5), []int{in, out}, 0.25, 3},
		{"Glorot uniform", nn.GlorotUniform(), []int{in, out}, 2. / (in + out), math.Sqrt(6. / (in + out))},
		{"He normal", nn.HeNormal(), []int{in, out}, 2. / in, 1},
		{"He normal of a 3x3 convolution", nn.HeNormal(), []int{3, 3, 64, 104}, 2. / (9 * 64), 1},
		{"Glorot uniform of a 3x3 convolution", nn.GlorotUniform(), []int{3, 3, 64, 104}, 2. / (9 * (64 + 104)), 0.1},
		{"scaled", nn.Scaled(nn.Normal(1), 0.25), []int{in, out}, 1. / 16, 2},
		{"depth-scaled", nn.DepthScaled(nn.Normal(1), 8), []int{in, out}, 1. / 64, 1},
	} {
		x := draw(c.init, c.shape...)
		n := float64(len(x))
		var sum, squares, largest float64
		for _, v := range x {
			sum += float64(v)
			squares += float64(v) * float64(v)
			largest = max(largest, math.Abs(float64(v)))
		}
		mean, variance := sum/n, squares/n
		if math.Abs(mean) > 4*math.Sqrt(c.variance/n) {
			t.Errorf("%s: mean %v", c.name, mean)
		}
		if math.Abs(variance/c.variance-1) > 4*math.Sqrt(2/n) {
			t.Errorf("%s: variance %v, want %v", c.name, variance, c.variance)
		}
		if largest > c.limit*(1+1e-6) {
			t.Errorf("%s: largest %v, want at most %v", c.name, largest, c.limit)
		}
	}
}

func TestConstantInits(t *testing.T) {
	testkit.EqualAll(t, draw(nn.Zeros(), 3), []float32{0, 0, 0}, "zeros")
	testkit.EqualAll(t, draw(nn.Ones(), 3), []float32{1, 1, 1}, "ones")
	testkit.EqualAll(t, draw(nn.Constant(0.5), 3), []float32{0.5, 0.5, 0.5}, "constant")
}

// TestSinusoid: the first columns are the fastest; sine and cosine alternate.
func TestSinusoid(t *testing.T) {
	x := draw(nn.Sinusoid(), 3, 4)
	var want []float32
	for _, pos := range []float64{0, 1, 2} {
		for _, speed := range []float64{1, 0.01} {
			want = append(want, float32(math.Sin(pos*speed)), float32(math.Cos(pos*speed)))
		}
	}
	for i := range want {
		if math.Abs(float64(x[i]-want[i])) > 1e-7 {
			t.Errorf("element %d is %v, want %v", i, x[i], want[i])
		}
	}
}

// TestInitIsKeyed: a parameter's values depend only on its path and the seed.
func TestInitIsKeyed(t *testing.T) {
	value := func(seed uint64, path string) float32 {
		x := make([]float32, 1)
		nn.Normal(1)(philox.NewStream(philox.KeyOf(seed, path), 0), graph.Shape{1}, x)
		return x[0]
	}
	v := value(1, "layer1/weight")
	if v != value(1, "layer1/weight") || v == value(2, "layer1/weight") || v == value(1, "layer2/weight") {
		t.Error("values are not a function of the seed and the path")
	}
}

// TestAttentionInit: computing the projections as one product does not change
// the fans of each, so they start as separate ones would.
func TestAttentionInit(t *testing.T) {
	const dim, heads, headDim = 32, 4, 16
	params := nn.NewAttention("", nn.AttentionConfig{Dim: dim, Heads: heads, HeadDim: headDim}).Params()
	limit := math.Sqrt(6. / (dim + heads*headDim))
	for _, p := range params {
		largest := 0.0
		for _, v := range draw(p.Init, p.Shape...) {
			largest = max(largest, math.Abs(float64(v)))
		}
		want := limit
		if strings.HasSuffix(p.Name, "bias") {
			want = 0
		}
		if largest > want || largest < 0.99*want {
			t.Errorf("%s starts within %v, want %v", p.Name, largest, want)
		}
	}
}
