package gnmt

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/internal/modeltest"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
)

// TestAgainstPyTorch: logits, loss and all gradients of a whole small network, with ragged
// sources and targets and one table for both embeddings.
func TestAgainstPyTorch(t *testing.T) {
	const tolerance = 2e-6
	oracle := programtest.ReadOracle(t, "testdata/gnmt.json")
	var c struct {
		Vocab, Dim, Layers, Batch int
		SourceTime                int `json:"source_time"`
		TargetTime                int `json:"target_time"`
		Smoothing                 float32
	}
	oracle.Config(&c)
	layers := modeltest.Build(t, New, Config{
		Layers: c.Layers, Dim: c.Dim, SourceVocab: c.Vocab, SourceLen: c.SourceTime, TargetLen: c.TargetTime,
		Shared: true,
	})
	network := programtest.Network{Layers: layers, In: []graph.Type{
		programtest.Integers(c.Batch, c.SourceTime), programtest.Integers(c.Batch), programtest.Integers(c.Batch, c.TargetTime),
	}}
	fill := func(r *programtest.Runner) {
		for i, name := range []string{"source", "source_lengths", "shifted_targets"} {
			copy(programtest.Ints(r.In(i)), oracle.Ints(name))
		}
		for _, p := range r.Function.Params {
			if p.Role == graph.Param {
				copy(r.Param(p.Name), oracle.Floats("param/"+p.Name))
			}
		}
	}
	r := programtest.CompileLayers(t, network)
	fill(r)
	r.Forward()
	oracle.Close(t, "logits", r.Out(0), tolerance)

	network.Loss = nn.CrossEntropy{Smoothing: c.Smoothing}
	network.Targets = []graph.Type{programtest.Integers(c.Batch, c.TargetTime)}
	r = programtest.CompileLayers(t, network)
	fill(r)
	targets := oracle.Ints("targets")
	copy(programtest.Ints(r.Feed(0)), targets)
	count := 0
	for _, id := range targets {
		if id >= 0 {
			count++
		}
	}
	r.Env.LossScale = 1 / float32(count)
	r.Keep()
	r.Backward()
	var loss float64
	for _, l := range r.Out(0) {
		loss += float64(l) / float64(count)
	}
	oracle.Close(t, "loss", []float32{float32(loss)}, tolerance)
	params := 0
	for _, p := range r.Function.Params {
		if p.Role == graph.Param {
			oracle.Close(t, "grad/"+p.Name, r.Grad(p.Name), tolerance)
			params++
		}
	}
	have := 0
	for _, name := range oracle.Names() {
		if strings.HasPrefix(name, "grad/") {
			have++
		}
	}
	testkit.Equal(t, have, params, "%d parameters, PyTorch's network", params)
}

// TestParameters: the reference has 160,671,297 parameters at its vocabulary of 32,320 tokens
// ("MLPerf GNMT has 160671297 parameters", the tests of github.com/NVIDIA/apex's distributed
// optimisers, which list their shapes). Of these 4*1024 are the second bias of each of its nine scans. By hand, with h =
// 1024 and V tokens: V h of the shared embedding, V h + V of the softmax, 4h(x + h + 1) of
// a scan over x columns, and 2h² + 2h + 1 of the attention.
func TestParameters(t *testing.T) {
	const h, vocab = 1024, 32320
	layers := modeltest.Build(t, New, Config{Layers: 4, Dim: h, SourceVocab: vocab, SourceLen: 50, Shared: true})
	scan := func(x int64) int64 { return 4 * h * (x + h + 1) }
	encoder := 2*scan(h) + scan(2*h) + 2*scan(h)
	decoder := scan(h) + 3*scan(2*h)
	want := int64(2*vocab*h+vocab) + encoder + decoder + 2*h*h + 2*h + 1
	if got := nn.CountParams(layers); got != want || got != 160_671_297-9*4*h {
		t.Errorf("%d parameters, want %d, and the reference's 160671297 without its second biases", got, want)
	}
}

// Initial weights are within 0.1, or, scaled, within the limit that gives a sum over the width as
// much variance as at width 1024.
func TestScaledInit(t *testing.T) {
	for _, c := range []struct {
		dim    int
		scaled bool
		limit  float64
	}{{16, false, 0.1}, {16, true, 0.8}, {64, true, 0.4}} {
		for _, l := range modeltest.Build(t, New, Config{Layers: 2, Dim: c.dim, SourceVocab: 50, SourceLen: 3, ScaledInit: c.scaled}) {
			for _, p := range l.Params() {
				if len(p.Shape) < 2 || p.Frozen {
					continue
				}
				w := make([]float32, p.Shape.Elems())
				p.Init(philox.NewStream(philox.KeyOf(1, p.Name), 0), p.Shape, w)
				var most, squares float64
				for _, x := range w {
					most, squares = max(most, math.Abs(float64(x))), squares+float64(x)*float64(x)
				}
				if sd := math.Sqrt(squares / float64(len(w))); most > c.limit || math.Abs(sd*math.Sqrt(3)/c.limit-1) > 0.1 {
					t.Errorf("%+v: %s up to %v with a deviation of %v", c, p.Name, most, sd)
				}
			}
		}
	}
}

func TestValidate(t *testing.T) {
	modeltest.Refuses(t, Config{Layers: 2, Dim: 4, SourceVocab: 5, SourceLen: 3}, New, map[string]func(*Config){
		"Layers is 1, want at least 2": func(c *Config) { c.Layers = 1 },
		"Dim is 0":                     func(c *Config) { c.Dim = 0 },
		"SourceVocab is -1":            func(c *Config) { c.SourceVocab = -1 },
		"TargetLen is -1":              func(c *Config) { c.TargetLen = -1 },
		"Dropout is 1":                 func(c *Config) { c.Dropout = 1 },
		"want one vocabulary":          func(c *Config) { c.Shared, c.TargetVocab = true, 6 },
	})
}
