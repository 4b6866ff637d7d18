package op

// Add is z = a + b, of equal shapes.
type Add struct{}

// Sub is z = a - b.
type Sub struct{}

// Mul is z = a * b, element by element.
type Mul struct{}

// Div is z = a / b, element by element, rounded as IEEE 754 says.
type Div struct{}

// Scale is z = S * x.
type Scale struct{ S float32 }

// Shift is z = x + S.
type Shift struct{ S float32 }

// Sqrt is y = sqrt(x), NaN below 0. Its gradient needs only y.
type Sqrt struct{}

// ReLU is y = max(x, 0). Its gradient needs only y.
type ReLU struct{}

// ReLUGrad is dx = dy where y > 0, else 0; inputs dy, y.
type ReLUGrad struct{}

// GELU is the tanh form of Hendrycks and Gimpel (2016).
type GELU struct{}

// GELUGrad takes dy, x.
type GELUGrad struct{}

// Clip limits x to [-Limit, Limit]; the gradient passes where |x| <= Limit.
// GPipe clips logits whose magnitude exceeds a value (section 5).
type Clip struct{ Limit float32 }

// ClipGrad takes dy, x.
type ClipGrad struct{ Limit float32 }

// Exp is y = exp(x). Its gradient needs only y.
type Exp struct{}

// Log is the natural logarithm, -Inf at 0 and NaN below.
type Log struct{}

// LogGrad takes dy, x.
type LogGrad struct{}

// Sigmoid is the logistic function, y = 1/(1 + exp(-x)). Its gradient needs
// only y.
type Sigmoid struct{}

// SigmoidGrad takes dy, y.
type SigmoidGrad struct{}

// Tanh is y = tanh(x). Its gradient needs only y.
type Tanh struct{}

// TanhGrad takes dy, y.
type TanhGrad struct{}

// SwiGLU is y = x σ(x) u with the logistic function σ, element by element: a gate x and what it
// lets pass, u (Shazeer 2020, section 2).
type SwiGLU struct{}

// SwiGLUGrad takes dy, x, u and returns the gradients of x and u.
type SwiGLUGrad struct{}

// Dropout zeroes elements with probability Rate and scales the others by
// 1/(1-Rate). The mask is a function of only (seed, step, Path, example,
// element), so the backward function and every recomputation draw it again
// instead of storing it.
type Dropout struct {
	Rate float32
	Path string
}

// DropPath zeroes whole examples with probability Rate and scales the others
// by 1/(1-Rate), which removes a branch for those examples (Larsson et al.
// 2016; AmoebaNet's drop-path). As for a dropout, the mask is drawn again
// whenever it is needed; it is a function of (seed, step, Path, example).
type DropPath struct {
	Rate float32
	Path string
	Over int // steps over which the probability rises from 0 to Rate; 0: it is Rate at all steps
}

// At returns the probability at a step, which counts from 1.
func (o DropPath) At(step uint64) float64 {
	if o.Over == 0 {
		return float64(o.Rate)
	}
	return float64(o.Rate) * min(1, float64(step-1)/float64(o.Over))
}

// AddBias adds a vector to every row: x (..., n), bias (n).
type AddBias struct{}

// ColumnSum adds the rows of x (..., n) to its output (n), in order. It is the gradient of a
// bias.
type ColumnSum struct{}

// Copy is y = x. Programs use it where a stage passes an input on as an
// output, and networks where a layer returns one value twice.
type Copy struct{}
