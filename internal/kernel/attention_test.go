package kernel

import (
	"fmt"
	"math"
	"testing"

	"gpipebench/internal/testkit"
)

// An attentionCase is a shape with its tensors in the layout of its strides.
type attentionCase struct {
	AttentionShape
	q, k, v, do     []float32
	o, lse          []float32
	dq, dk, dv      []float32
	scratch, gradSc []float32
}

// rowsOf places rows of HeadDim values at distances of stride, with NaNs
// between them; the last row ends the slice. If values is nil, every element is
// NaN.
func rowsOf(values []float64, rows, dim, stride int) []float32 {
	x := make([]float32, (rows-1)*stride+dim)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	for i := range values {
		x[i/dim*stride+i%dim] = float32(values[i])
	}
	return x
}

func newAttentionCase(s AttentionShape) *attentionCase {
	nq, nk := s.Queries*s.HeadDim, s.Keys*s.HeadDim
	nan := func(n int) []float32 { return rowsOf(nil, 1, n, n) }
	return &attentionCase{
		AttentionShape: s,
		q:              rowsOf(attentionNormals(nq, 1), s.Queries, s.HeadDim, s.QStride),
		k:              rowsOf(attentionNormals(nk, 2), s.Keys, s.HeadDim, s.KStride),
		v:              rowsOf(attentionNormals(nk, 3), s.Keys, s.HeadDim, s.VStride),
		do:             rowsOf(attentionNormals(nq, 4), s.Queries, s.HeadDim, s.OStride),
		o:              rowsOf(nil, s.Queries, s.HeadDim, s.OStride),
		lse:            nan(s.Queries),
		dq:             rowsOf(nil, s.Queries, s.HeadDim, s.QStride),
		dk:             rowsOf(nil, s.Keys, s.HeadDim, s.KStride),
		dv:             rowsOf(nil, s.Keys, s.HeadDim, s.VStride),
		scratch:        nan(s.Scratch()),
		gradSc:         nan(s.GradScratch()),
	}
}

func (c *attentionCase) run() {
	Attention(c.AttentionShape, c.o, c.lse, c.q, c.k, c.v, c.scratch)
	AttentionGrad(c.AttentionShape, c.dq, c.dk, c.dv, c.do, c.q, c.k, c.v, c.o, c.lse, c.gradSc)
}

// results returns the rows of the outputs without gaps, and fails if a gap
// changed.
func (c *attentionCase) results(t *testing.T) map[string][]float32 {
	t.Helper()
	pack := func(name string, x []float32, stride int) []float32 {
		var y []float32
		for i, v := range x {
			if i%stride < c.HeadDim {
				y = append(y, v)
			} else if v == v {
				t.Fatalf("%v: %s[%d], between rows, was set to %g", c, name, i, v)
			}
		}
		return y
	}
	return map[string][]float32{
		"o": pack("o", c.o, c.OStride), "lse": c.lse,
		"dq": pack("dq", c.dq, c.QStride), "dk": pack("dk", c.dk, c.KStride), "dv": pack("dv", c.dv, c.VStride),
	}
}

// Compared with float64, the error of an element is at most 4e-6 of the largest
// element of its tensor, or 4e-6 if none is above one: the inputs have variance
// one.
func TestAttention(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		worst := map[string]float64{}
		for _, s := range attentionShapes() {
			c := newAttentionCase(s)
			c.run()
			nq, nk := s.Queries*s.HeadDim, s.Keys*s.HeadDim
			q, k, v, do := attentionNormals(nq, 1), attentionNormals(nk, 2), attentionNormals(nk, 3), attentionNormals(nq, 4)
			o, lse, _ := attentionReference(s, q, k, v)
			dq, dk, dv := attentionGradReference(s, do, q, k, v)
			want := map[string][]float64{"o": o, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
			for name, got := range c.results(t) {
				off, at := largestError(got, want[name])
				worst[name] = max(worst[name], off)
				if !(off <= 4e-6) {
					t.Errorf("%v: %s[%d] is %g, want %g: off by %.2g of the largest", s, name, at, got[at], want[name][at], off)
				}
			}
		}
		for name, off := range worst {
			t.Logf("%s: largest error %.2g", name, off)
		}
	})
}

// largestError returns the largest error relative to the largest finite
// element, or to one, and where it is. Infinities must agree.
func largestError(got []float32, want []float64) (off float64, at int) {
	size := 1.0
	for _, w := range want {
		if !math.IsInf(w, 0) {
			size = max(size, math.Abs(w))
		}
	}
	for i, w := range want {
		e := math.Abs(float64(got[i])-w) / size
		if float64(got[i]) == w {
			e = 0
		}
		if !(e <= off) {
			off, at = e, i
		}
	}
	return off, at
}

// Queries that see nothing, and keys that no query sees, give exact zeros.
func TestAttentionSeesNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, s := range attentionShapes() {
			c := newAttentionCase(s)
			c.run()
			r := c.results(t)
			for i := range s.Queries {
				if s.sees(i) > 0 {
					continue
				}
				if !math.IsInf(float64(r["lse"][i]), -1) {
					t.Errorf("%v: lse[%d] = %g", s, i, r["lse"][i])
				}
				for _, name := range []string{"o", "dq"} {
					for _, x := range r[name][i*s.HeadDim:][:s.HeadDim] {
						if x != 0 {
							t.Fatalf("%v: row %d of %s has %g", s, i, name, x)
						}
					}
				}
			}
			for j := s.Valid; j < s.Keys; j++ {
				for _, name := range []string{"dk", "dv"} {
					for _, x := range r[name][j*s.HeadDim:][:s.HeadDim] {
						if x != 0 {
							t.Fatalf("%v: row %d of %s has %g", s, j, name, x)
						}
					}
				}
			}
		}
	})
}

func sameResults(t *testing.T, what fmt.Stringer, got, want map[string][]float32) {
	t.Helper()
	for name := range want {
		sameBits(t, fmt.Sprint(what, " ", name), [][]float32{got[name]}, [][]float32{want[name]})
	}
}

// The contents of padding rows of k and v change no bit.
func TestAttentionPadding(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, s := range attentionShapes() {
			if s.Valid == s.Keys {
				continue
			}
			c, d := newAttentionCase(s), newAttentionCase(s)
			for j := s.Valid; j < s.Keys; j++ {
				for i := range s.HeadDim {
					d.k[j*s.KStride+i] = float32(math.NaN())
					d.v[j*s.VStride+i] = float32(math.Inf(1))
				}
			}
			c.run()
			d.run()
			sameResults(t, s, d.results(t), c.results(t))
		}
	})
}

// Strides, places in a buffer and the contents of scratch change no bit.
func TestAttentionStrides(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, s := range attentionShapes() {
			c := newAttentionCase(s)
			c.run()
			want := c.results(t)
			s.QStride, s.KStride, s.VStride, s.OStride = s.HeadDim, s.HeadDim+9, s.HeadDim, 4*s.HeadDim
			d := newAttentionCase(s)
			for _, x := range []*[]float32{&d.q, &d.k, &d.v, &d.do, &d.o, &d.lse, &d.dq, &d.dk, &d.dv, &d.scratch, &d.gradSc} {
				*x = append(make([]float32, 3, 3+len(*x)), *x...)[3:]
			}
			d.run()
			clear(d.scratch)
			clear(d.gradSc)
			d.run()
			sameResults(t, s, d.results(t), want)
		}
	})
}

// A NaN in a row of q reaches the results of that row and of no other query.
func TestAttentionKeepsNaN(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		s := AttentionShape{Queries: 20, Keys: 20, HeadDim: 5, QStride: 5, KStride: 5, VStride: 5, OStride: 5, Causal: true, Valid: 20, Scale: 1}
		c, d := newAttentionCase(s), newAttentionCase(s)
		d.q[9*5+2] = float32(math.NaN())
		c.run()
		d.run()
		for i := range s.Queries {
			for j := range 5 {
				if i == 9 {
					if d.o[i*5+j] == d.o[i*5+j] || d.dq[i*5+j] == d.dq[i*5+j] {
						t.Errorf("o[%d][%d] = %g, dq %g: NaN was lost", i, j, d.o[i*5+j], d.dq[i*5+j])
					}
				} else if d.o[i*5+j] != c.o[i*5+j] || d.dq[i*5+j] != c.dq[i*5+j] {
					t.Errorf("row %d changed", i)
				}
			}
		}
		if d.dk[0] == d.dk[0] {
			t.Errorf("dk[0] = %g: NaN was lost", d.dk[0])
		}
	})
}

// Scores of hundreds, for which a softmax without its shift would overflow.
func TestAttentionLargeScores(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		s := AttentionShape{Queries: 33, Keys: 33, HeadDim: 16, QStride: 16, KStride: 16, VStride: 16, OStride: 16, Valid: 33, Scale: 60}
		c := newAttentionCase(s)
		c.run()
		n := s.Keys * s.HeadDim
		o, lse, _ := attentionReference(s, attentionNormals(n, 1), attentionNormals(n, 2), attentionNormals(n, 3))
		// A score of 1000 has an error of 1e-4, and so does its weight.
		if off, _ := largestError(c.o, o); !(off < 1e-3) {
			t.Errorf("o is off by %.2g", off)
		}
		if off, _ := largestError(c.lse, lse); !(off < 1e-6) {
			t.Errorf("lse is off by %.2g", off)
		}
		for name, x := range c.results(t) {
			for i, x := range x {
				if x-x != 0 {
					t.Fatalf("%s[%d] = %g", name, i, x)
				}
			}
		}
	})
}

func TestAttentionAllocatesNothing(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		c := newAttentionCase(attentionShapes()[30])
		testkit.Equal(t, testing.AllocsPerRun(10, c.run), 0, "%v", c)
	})
}

// Scratch does not depend on the mask, and grows linearly with the keys.
func TestAttentionScratch(t *testing.T) {
	s := AttentionShape{Queries: 2048, Keys: 2048, HeadDim: 64}
	causal := s
	causal.Causal, causal.Valid = true, 17
	if s.Scratch() != causal.Scratch() || s.GradScratch() != causal.GradScratch() {
		t.Error("scratch depends on the mask")
	}
	if n := s.GradScratch(); n > 2048*2048/4 {
		t.Errorf("%d floats of scratch", n)
	}
}
