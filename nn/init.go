package nn

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// Initialisers compute in float64 and round once. They draw the elements'
// numbers from the stream in row-major order.

// Constant sets every element to v.
func Constant(v float32) Initializer {
	return func(_ *philox.Stream, _ graph.Shape, dst []float32) {
		for i := range dst {
			dst[i] = v
		}
	}
}

// Zeros is the initialiser of biases and of the offsets of norms.
func Zeros() Initializer { return Constant(0) }

// Ones is the initialiser of the gains of norms.
func Ones() Initializer { return Constant(1) }

// Uniform draws evenly from [-limit, limit).
func Uniform(limit float64) Initializer {
	return func(r *philox.Stream, _ graph.Shape, dst []float32) {
		r.Fill(dst, philox.Float64Words, func(r *philox.Stream) float32 { return float32(limit * (float64(2*r.Float64()) - 1)) })
	}
}

// Normal draws normal numbers of mean 0.
func Normal(stddev float64) Initializer {
	return func(r *philox.Stream, _ graph.Shape, dst []float32) {
		r.Fill(dst, philox.NormalWords, func(r *philox.Stream) float32 { return float32(stddev * r.Normal()) })
	}
}

// GlorotUniform keeps the variance of activations and of gradients alike
// (Glorot and Bengio 2010, equation 16): uniform on ±sqrt(6/(fan in + fan
// out)).
func GlorotUniform() Initializer {
	return func(r *philox.Stream, shape graph.Shape, dst []float32) {
		glorot(fans(shape))(r, shape, dst)
	}
}

// HeNormal keeps the variance through ReLU (He et al. 2015, equation 10):
// normal numbers of variance 2/fan in.
func HeNormal() Initializer {
	return func(r *philox.Stream, shape graph.Shape, dst []float32) {
		in, _ := fans(shape)
		Normal(math.Sqrt(2/float64(in)))(r, shape, dst)
	}
}

// Scaled multiplies the values of init by factor.
func Scaled(init Initializer, factor float64) Initializer {
	return func(r *philox.Stream, shape graph.Shape, dst []float32) {
		init(r, shape, dst)
		for i := range dst {
			dst[i] = float32(float64(dst[i]) * factor)
		}
	}
}

// DepthScaled is GPipe's cure for unstable deep Transformers: "we scale down
// the initialization of all transformer feed-forward layers by the number of
// layers" (Huang et al. 2019, section 5, after Zhang et al. 2019, Fixup). It is
// taken literally: both weights of a feed-forward layer times 1/layers.
//
// Others read Fixup differently. Its own rule for a branch of m matrices is
// layers^(-1/(2m-2)) on all but the last, which starts from zero; lingvo has
// layers^(-1/(2m)) on all. With m = 2 these are Scaled(init, layers^-0.5) and
// Scaled(init, layers^-0.25).
func DepthScaled(init Initializer, layers int) Initializer {
	if layers < 1 {
		misuse("initialiser", "depth-scaled", "layers is %d, want at least 1", layers)
	}
	return Scaled(init, 1/float64(layers))
}

// Sinusoid fills a table of positions (t, d) as in Vaswani et al. 2017, section
// 3.5: sin(pos/10000^(2i/d)) in column 2i and its cosine in column 2i+1.
func Sinusoid() Initializer {
	return func(_ *philox.Stream, shape graph.Shape, dst []float32) {
		d := shape.Last()
		for i := range dst {
			pos, column := float64(i/d), i%d
			angle := pos / exactmath.Pow(10000, float64(column&^1)/float64(d))
			if column%2 == 0 {
				dst[i] = float32(exactmath.Sin(angle))
			} else {
				dst[i] = float32(exactmath.Cos(angle))
			}
		}
	}
}

// fans returns the numbers of inputs and outputs of one position of a weight
// (..., in, out); the leading dimensions are a convolution's kernel.
func fans(shape graph.Shape) (in, out int) {
	n := len(shape)
	if n < 2 {
		misuse("initialiser", "fan", "a weight of shape %s has no fan in and out, want at least two dimensions", shape)
	}
	receptive := shape[:n-2].Elems()
	return receptive * shape[n-2], receptive * shape[n-1]
}

// glorot is GlorotUniform with given fans.
func glorot(in, out int) Initializer { return Uniform(math.Sqrt(6 / float64(in+out))) }
