package nn_test

import (
	"math"
	"strings"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// oracleTolerance bounds the error of a layer's forward and backward, in units
// of a tensor's largest magnitude: a few successive roundings of float32 (6e-8
// each).
const oracleTolerance = 1e-6

// TestAttentionAgainstPyTorch: all four masks, forward and backward.
func TestAttentionAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/attention.json")
	var config struct {
		Batch, Time, Dim, Heads int
		Cases                   []string
	}
	oracle.Config(&config)
	for _, name := range config.Cases {
		t.Run(name, func(t *testing.T) {
			c := nn.AttentionConfig{
				Dim: config.Dim, Heads: config.Heads,
				Causal: name == "causal" || name == "both",
				Padded: name == "padding" || name == "both",
			}
			in := []graph.Type{programtest.Floats(config.Batch, config.Time, config.Dim)}
			if c.Padded {
				in = append(in, programtest.Integers(config.Batch))
			}
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{nn.Sequential("layer", nn.NewAttention("", c))}, In: in,
			})
			copy(r.In(0), oracle.Floats("x"))
			if c.Padded {
				copy(programtest.Ints(r.In(1)), oracle.Ints("lengths"))
			}
			copy(r.DOut(0), oracle.Floats("dy"))
			params := []string{"qkv/weight", "qkv/bias", "out/weight", "out/bias"}
			for _, p := range params {
				copy(r.Param("layer/"+p), oracle.Floats("param/"+p))
			}
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), oracleTolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), oracleTolerance)
			for _, p := range params {
				oracle.Close(t, name+"/grad/"+p, r.Grad("layer/"+p), oracleTolerance)
			}
		})
	}
}

// TestCrossAttentionOnItself: cross attention to its own input is
// self-attention, so the oracle of self-attention serves both.
func TestCrossAttentionOnItself(t *testing.T) {
	const batch, time, dim, heads, headDim = 2, 5, 8, 2, 3
	const inner = heads * headDim
	for _, c := range []nn.AttentionConfig{{}, {Causal: true}, {Padded: true}, {Causal: true, Padded: true}} {
		c.Dim, c.Heads, c.HeadDim = dim, heads, headDim
		run := func(cross bool) *programtest.Runner {
			c := c
			c.Cross = cross
			x := programtest.Floats(batch, time, dim)
			in := []graph.Type{x}
			if cross {
				in = append(in, x)
			}
			if c.Padded {
				in = append(in, programtest.Integers(batch))
			}
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{nn.Sequential("layer", nn.NewAttention("", c))}, In: in,
			})
			fill(r.In(0), "x")
			if cross {
				fill(r.In(1), "x")
			}
			if c.Padded {
				copy(programtest.Ints(r.In(len(in)-1)), []int32{5, 3})
			}
			fill(r.DOut(0), "dy")
			return r
		}
		self, cross := run(false), run(true)
		fill(self.Param("layer/qkv/bias"), "bias")
		for _, p := range []string{"weight", "bias"} {
			all := self.Param("layer/qkv/" + p)
			for i := 0; i < len(all); i += 3 * inner {
				row := all[i : i+3*inner]
				copy(cross.Param("layer/q/" + p)[i/3:], row[:inner])
				copy(cross.Param("layer/kv/" + p)[2*i/3:], row[inner:])
			}
			copy(cross.Param("layer/out/"+p), self.Param("layer/out/"+p))
		}
		for _, r := range []*programtest.Runner{self, cross} {
			r.Keep()
			r.Backward()
		}
		programtest.CloseTo(t, "y", cross.Out(0), doubles(self.Out(0)), oracleTolerance)
		dx := make([]float32, len(self.DIn(0)))
		for i, d := range cross.DIn(0) {
			dx[i] = d + cross.DIn(1)[i]
		}
		programtest.CloseTo(t, "dx", dx, doubles(self.DIn(0)), oracleTolerance)
		programtest.CloseTo(t, "out/weight", cross.Grad("layer/out/weight"), doubles(self.Grad("layer/out/weight")), oracleTolerance)
		for _, p := range []string{"weight", "bias"} {
			var joined []float32
			q, kv := cross.Grad("layer/q/"+p), cross.Grad("layer/kv/"+p)
			for i := 0; i < len(q); i += inner {
				joined = append(append(joined, q[i:i+inner]...), kv[2*i:2*i+2*inner]...)
			}
			programtest.CloseTo(t, "qkv/"+p, joined, doubles(self.Grad("layer/qkv/"+p)), oracleTolerance)
		}
	}
}

func TestAttentionParams(t *testing.T) {
	names := func(c nn.AttentionConfig) string {
		c.Dim, c.Heads = 8, 2
		var all []string
		for _, p := range nn.NewAttention("attention", c).Params() {
			all = append(all, p.Name+p.Shape.String())
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		config nn.AttentionConfig
		want   string
	}{
		{nn.AttentionConfig{}, "attention/qkv/weight(8,24) attention/qkv/bias(24) attention/out/weight(8,8) attention/out/bias(8)"},
		{nn.AttentionConfig{HeadDim: 5}, "attention/qkv/weight(8,30) attention/qkv/bias(30) attention/out/weight(10,8) attention/out/bias(8)"},
		{nn.AttentionConfig{Cross: true}, "attention/q/weight(8,8) attention/q/bias(8) attention/kv/weight(8,16) attention/kv/bias(16) attention/out/weight(8,8) attention/out/bias(8)"},
	} {
		if got := names(c.config); got != c.want {
			t.Errorf("%+v: %s, want %s", c.config, got, c.want)
		}
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
