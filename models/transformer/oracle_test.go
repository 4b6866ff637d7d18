package transformer

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// The whole model against PyTorch in float64 (testdata/lm.py): logits, loss,
// every gradient, and ten steps of Adam.
//
// The tolerance is in units of a tensor's largest magnitude. PyTorch's own run
// in float32 strays by 7e-7 at the most (lm.py --float32), ours by 9e-7; a
// kernel that sums in another order may need a little more. Adam makes a whole
// step of the smallest gradient, so weights would be off by 1e-3 and more if
// one had the wrong sign.
const tolerance = 2e-6

type lmConfig struct {
	Vocab, Dim, FF, Heads, Layers, Time, Batch int
	Smoothing                                  float32 `json:"label_smoothing"`
	Tied                                       bool
	Adam                                       struct {
		LR    float32
		Betas [2]float32
		Eps   float32
	}
	Steps int
}

func TestAgainstPyTorch(t *testing.T) {
	for _, file := range []string{"lm.json", "lm_tied.json"} {
		for _, cut := range []string{"coarse", "fine"} {
			t.Run(file+"/"+cut, func(t *testing.T) { againstPyTorch(t, "testdata/"+file, cut == "fine") })
		}
	}
}

func againstPyTorch(t *testing.T, file string, fine bool) {
	oracle := programtest.ReadOracle(t, file)
	var c lmConfig
	oracle.Config(&c)
	layers, err := LM(Config{
		Layers: c.Layers, Dim: c.Dim, FeedForward: c.FF, Heads: c.Heads, Vocab: c.Vocab, SeqLen: c.Time, Tied: c.Tied, Fine: fine,
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := []graph.Type{programtest.Integers(c.Batch, c.Time)}
	r := programtest.CompileLayers(t, programtest.Network{
		Layers: layers, Loss: nn.CrossEntropy{Smoothing: c.Smoothing}, In: tokens, Targets: tokens,
	})
	ids, targets := oracle.Ints("ids"), oracle.Ints("targets")
	copy(programtest.Ints(r.In(0)), ids)
	copy(programtest.Ints(r.Feed(0)), targets)
	count := 0
	for _, target := range targets {
		if target >= 0 {
			count++
		}
	}
	r.Env.LossScale = 1 / float32(count)

	// The trained parameters are the oracle's, by name and shape.
	var params []string
	for _, p := range r.Function.Params {
		if p.Role != graph.Param {
			continue
		}
		params = append(params, p.Name)
		if shape := oracle.Shape("param/" + p.Name); !slices.Equal(shape, p.Shape) {
			t.Errorf("%s is %v, want %v", p.Name, p.Shape, shape)
		}
		copy(r.Param(p.Name), oracle.Floats("param/"+p.Name))
	}
	for _, name := range oracle.Names() {
		if p, ok := strings.CutPrefix(name, "param/"); ok && !slices.Contains(params, p) {
			t.Errorf("the model has no parameter %s", p)
		}
	}

	logits := programtest.CompileLayers(t, programtest.Network{Layers: layers, In: tokens, Evaluate: true})
	copy(logits.Space(program.Params), r.Space(program.Params))
	copy(programtest.Ints(logits.In(0)), ids)
	logits.Forward()
	oracle.Close(t, "logits", logits.Out(0), tolerance)

	optimizer := nn.Adam{Beta1: c.Adam.Betas[0], Beta2: c.Adam.Betas[1], Eps: c.Adam.Eps}
	state := map[string][][]float32{}
	for _, p := range params {
		for range optimizer.Slots() {
			state[p] = append(state[p], make([]float32, len(r.Param(p))))
		}
	}
	var losses []float32
	for step := 1; step <= c.Steps; step++ {
		clear(r.Space(program.Grads))
		r.Env.Step = uint64(step)
		r.Keep()
		var sum float64
		for _, l := range r.Out(0) {
			sum += float64(l)
		}
		losses = append(losses, float32(sum/float64(count)))
		r.Backward()
		for _, p := range params {
			if step == 1 {
				compareGradient(t, oracle, r, c, p)
			}
			optimizer.Update(nn.Update{W: r.Param(p), G: r.Grad(p), State: state[p], Step: step, LR: c.Adam.LR, Scale: 1})
		}
	}
	oracle.Close(t, "losses", losses, tolerance)
	oracle.Close(t, "loss", losses[:1], tolerance)
	for _, p := range params {
		name := "adam10/" + p
		got, want := withoutKeysBias(p, c.Dim, r.Param(p)), withoutKeysBias(p, c.Dim, oracle.Exact(name))
		programtest.CloseTo(t, name, got, want, tolerance)
	}
}

func compareGradient(t *testing.T, oracle *programtest.Oracle, r *programtest.Runner, c lmConfig, p string) {
	oracle.Close(t, "grad/"+p, r.Grad(p), tolerance)
	uses := r.Grads(p)
	want := 1
	if c.Tied && p == "embedding/table" {
		want = 2 // the embedding's first, in the order of the calls
		oracle.Close(t, "grad/"+p+"/use0", uses[0], tolerance)
		oracle.Close(t, "grad/"+p+"/use1", uses[1], tolerance)
	}
	if len(uses) != want {
		t.Errorf("%s has %d accumulators, want %d", p, len(uses), want)
	}
}

// withoutKeysBias leaves the bias of the keys out of a qkv bias. Its gradient
// is zero but for rounding, which Adam turns into steps of up to the rate.
func withoutKeysBias[T float32 | float64](path string, dim int, x []T) []T {
	if !strings.HasSuffix(path, "/qkv/bias") {
		return x
	}
	return slices.Concat(x[:dim], x[2*dim:])
}
