// Package imageoracle compares image models with PyTorch, which has run the
// same models in float64 (imageoracle.py): single layers, and training steps of
// whole models with GPipe's batch norm.
//
// Inputs come from a formula that both sides implement; outputs are stored as
// digests.
package imageoracle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// Oracle is a file of digests. Tolerances are in units of a tensor's largest
// magnitude, for gradients in units of the pipeline layer's largest one:
// gradients before a batch norm cancel, some to nearly nothing.
type Oracle struct {
	*programtest.Oracle
	// Prefix begins the names of the tensors of one case.
	Prefix string
	// Seed is the seed of the formula.
	Seed int
	// Blocks in which sums are made that parts of a stage could divide; 0: one.
	Blocks int
	// Tolerance of values, and of gradients.
	Tolerance, Gradient float64
}

// Layers compares single layers of a model, each with one input x, in the cases of a file. The
// file also describes the model, as an M.
func Layers[M any](t *testing.T, file string, build func(M) []nn.Layer) {
	oracle := programtest.ReadOracle(t, file)
	var m M
	var c struct {
		Cases map[string]struct {
			Seed  int
			Input []int
		}
	}
	oracle.Config(&m)
	oracle.Config(&c)
	for _, l := range build(m) {
		one, ok := c.Cases[l.Name()]
		if !ok {
			continue
		}
		delete(c.Cases, l.Name())
		t.Run(l.Name(), func(t *testing.T) {
			o := Oracle{Oracle: oracle, Prefix: l.Name() + ":", Seed: one.Seed, Tolerance: 3e-6, Gradient: 3e-6}
			o.Layer(t, l, []string{"x"}, []graph.Type{programtest.Floats(one.Input...)})
		})
	}
	if len(c.Cases) > 0 {
		t.Errorf("no layers for %v", c.Cases)
	}
}

// InBothCuts compares a training of the model that a file describes, as an M, in either cut, and with sums in each
// of these numbers of blocks as well, within a tolerance of gradients, and of values if that is below 5e-6.
func InBothCuts[M any](t *testing.T, file string, tolerance float64, build func(m M, fine bool) []nn.Layer, loss func(nn.CrossEntropy) nn.Loss, blocks ...int) {
	oracle := programtest.ReadOracle(t, file)
	var m M
	var c Training
	oracle.Config(&m)
	oracle.Config(&c)
	for _, fine := range []bool{false, true} {
		for _, blocks := range append([]int{1}, blocks...) {
			t.Run(fmt.Sprintf("fine=%v, %d blocks", fine, blocks), func(t *testing.T) {
				o := Oracle{Oracle: oracle, Seed: c.Seed, Blocks: blocks, Tolerance: min(tolerance, 5e-6), Gradient: tolerance}
				o.Training(t, c, build(m, fine), loss(nn.CrossEntropy{Smoothing: c.Smoothing}))
			})
		}
	}
}

// Layer runs one training micro-batch of a single layer and compares its
// outputs, all gradients and the update of the moving averages.
func (o Oracle) Layer(t *testing.T, layer nn.Layer, names []string, in []graph.Type) {
	t.Helper()
	s, r := o.compile(t, []nn.Layer{layer}, nil, in, nil)
	for i, name := range names {
		copy(r.In(i), tensor(o.seeded(name), in[i].Shape.Elems(), 2, 0))
	}
	for i, out := range s.Out {
		copy(r.DOut(i), tensor(o.seeded(fmt.Sprint("dout", i)), out.Shape.Elems(), 1, 0))
	}
	r.Keep()
	r.Backward()
	compared := 0
	for i := range s.Out {
		compared += o.compare(t, fmt.Sprint("out", i), r.Out(i))
	}
	for i := range in {
		if len(r.DIn(i)) > 0 {
			compared += o.compare(t, fmt.Sprint("din", i), r.DIn(i))
		}
	}
	compared += o.gradients(t, s, r)
	for i, m := range s.Moving {
		mean, variance := o.averages(s, r, m)
		kernel.MoveStatistics(mean, variance, r.Tally(i), 0.75, m.Unbiased)
		compared += o.moved(t, s, m, mean, variance)
	}
	o.all(t, compared)
}

// Training describes training steps in the oracle's files.
type Training struct {
	Seed, Classes, Image int
	Batches              []int
	LR                   float32
	Smoothing            float32
	Momentum             float64
}

// Training runs two mini-batches, each in micro-batches and followed by a step
// of SGD and one update of the moving averages. It compares the losses, the
// first mini-batch's gradients and the averages.
func (o Oracle) Training(t *testing.T, c Training, layers []nn.Layer, loss nn.Loss) {
	t.Helper()
	n := 0
	for _, size := range c.Batches {
		n += size
	}
	image := graph.Shape{c.Image, c.Image, 3}
	per := image.Elems()
	stages := make([]*trace.Stage, len(c.Batches))
	runners := make([]*programtest.Runner, len(c.Batches))
	for i, size := range c.Batches {
		in := []graph.Type{programtest.Floats(append(graph.Shape{size}, image...)...)}
		stages[i], runners[i] = o.compile(t, layers, loss, in, []graph.Type{programtest.Integers(size)})
	}
	params := runners[0].Space(program.Params)
	compared := 0
	var losses []float32
	for step := range 2 {
		images := tensor(o.seeded(fmt.Sprint("images", step)), n*per, 2, 0)
		labels := integers(o.seeded(fmt.Sprint("labels", step)), n, c.Classes)
		var sum float64
		grads := make([]float32, len(runners[0].Space(program.Grads)))
		first := 0
		for i, size := range c.Batches {
			r := runners[i]
			copy(r.Space(program.Params), params)
			copy(r.Space(program.Grads), grads)
			copy(r.In(0), images[first*per:(first+size)*per])
			copy(programtest.Ints(r.Feed(0)), labels[first:first+size])
			r.Env.Example, r.Env.LossScale = uint64(first), 1/float32(n)
			r.Env.Again = false
			r.Forward()
			for _, l := range r.Out(0) {
				sum += float64(l)
			}
			r.Env.Again = true // the recomputation
			r.Keep()
			r.Backward()
			copy(grads, r.Space(program.Grads))
			first += size
		}
		losses = append(losses, float32(sum/float64(n)))
		last := runners[len(runners)-1]
		if step == 0 {
			compared += o.gradients(t, stages[0], last)
		}
		copy(params, last.Space(program.Params))
		s, r := stages[0], runners[0]
		copy(r.Space(program.Grads), grads)
		for i, m := range s.Moving {
			mean, variance := o.averages(s, r, m)
			kernel.MoveStatistics(mean, variance, r.Tally(i), m.Momentum, m.Unbiased)
			if step == 1 {
				compared += o.moved(t, s, m, mean, variance)
			}
		}
		for _, p := range s.Function.Params {
			if p.Role == graph.Param {
				nn.SGD{}.Update(nn.Update{W: r.Param(p.Name), G: r.Grad(p.Name), Step: step + 1, LR: c.LR, Scale: 1})
			}
		}
		params = slices.Clone(r.Space(program.Params))
	}
	o.Close(t, "losses", losses, o.Tolerance)
	o.all(t, compared+1)
}

// compile compiles layers, with parameters from the formula.
func (o Oracle) compile(t *testing.T, layers []nn.Layer, loss nn.Loss, in, targets []graph.Type) (*trace.Stage, *programtest.Runner) {
	t.Helper()
	s := trace.Layers(layers, 0, loss, in, targets, true)
	gradOut := make([]bool, len(s.Out))
	for i := range gradOut {
		gradOut[i] = loss == nil
	}
	r := programtest.Compile(t, s.Function, gradOut, 1)
	for _, p := range s.Function.Params {
		copy(r.Param(p.Name), parameter(o.seeded(p.Name), p.Shape))
	}
	if o.Blocks > 1 {
		r = r.InBlocks(o.Blocks)
	}
	return s, r
}

func (o Oracle) seeded(name string) string { return fmt.Sprint(o.Seed, "/", name) }

// averages returns the moving averages of a batch norm.
func (o Oracle) averages(s *trace.Stage, r *programtest.Runner, m nn.Moving) (mean, variance []float32) {
	return r.Param(pathOf(s, m.Mean)), r.Param(pathOf(s, m.Variance))
}

func (o Oracle) moved(t *testing.T, s *trace.Stage, m nn.Moving, mean, variance []float32) (compared int) {
	t.Helper()
	return o.compare(t, pathOf(s, m.Mean), mean) + o.compare(t, pathOf(s, m.Variance), variance)
}

func pathOf(s *trace.Stage, p *nn.Param) string {
	return s.Function.Params[slices.Index(s.Params, p)].Name
}

// gradients compares the gradients of all parameters.
func (o Oracle) gradients(t *testing.T, s *trace.Stage, r *programtest.Runner) (compared int) {
	t.Helper()
	units := map[string]float64{} // by pipeline layer
	for _, p := range s.Function.Params {
		if p.Role == graph.Param {
			largest := o.Exact(o.Prefix + "grad/" + p.Name)[0]
			units[layerOf(p.Name)] = max(units[layerOf(p.Name)], largest)
		}
	}
	for _, p := range s.Function.Params {
		if p.Role == graph.Param {
			compared += o.digest(t, "grad/"+p.Name, r.Grad(p.Name), units[layerOf(p.Name)], o.Gradient)
		}
	}
	return compared
}

// layerOf returns the pipeline layer with which a parameter's path begins.
func layerOf(path string) string {
	parts := strings.Split(path, "/")
	if strings.HasPrefix(parts[0], "stage") {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func (o Oracle) compare(t *testing.T, name string, got []float32) (compared int) {
	t.Helper()
	return o.digest(t, name, got, o.Exact(o.Prefix + name)[0], o.Tolerance)
}

// digest compares a tensor with [largest magnitude, sum of magnitudes, product
// with a tensor from the formula, up to four elements]. The product may be off
// by as much as if every element were off by the tolerance.
func (o Oracle) digest(t *testing.T, name string, got []float32, unit, tolerance float64) int {
	t.Helper()
	want := o.Exact(o.Prefix + name)
	n := len(got)
	if unit == 0 {
		unit = 1
	}
	var largest, sum, product float64
	for i, f := range tensor("probe/"+name, n, 1, 0) {
		v := float64(got[i])
		largest, sum, product = max(largest, math.Abs(v)), sum+math.Abs(v), product+v*float64(f)
	}
	var at []int
	for k := range 4 {
		at = append(at, k*n/4)
	}
	at = slices.Compact(at)
	if len(want) != 3+len(at) {
		t.Fatalf("%s%s: %d values of a digest for %d elements", o.Prefix, name, len(want), n)
	}
	// A typical element has the weight of the largest one divided by their
	// ratio.
	mean := 1.0
	if want[0] > 0 {
		mean = want[1] / want[0]
	}
	errs := []float64{(largest - want[0]) / unit, (sum - want[1]) / (mean * unit), (product - want[2]) / (mean * unit)}
	for i, j := range at {
		errs = append(errs, (float64(got[j])-want[3+i])/unit)
	}
	worst := 0.0
	for _, e := range errs {
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		worst = max(worst, math.Abs(e))
	}
	if worst > tolerance {
		t.Errorf("%s%s: off by %.2g, tolerance %.2g: largest, sum, product %.7g, %.7g, %.7g, want %.7g (elements %v)",
			o.Prefix, name, worst, tolerance, largest, sum, product, want, at)
		return 1
	}
	t.Logf("%-60s error %.1e", o.Prefix+name, worst)
	return 1
}

// all fails unless everything in the file was compared.
func (o Oracle) all(t *testing.T, compared int) {
	t.Helper()
	n := 0
	for _, name := range o.Names() {
		if strings.HasPrefix(name, o.Prefix) {
			n++
		}
	}
	if n != compared {
		t.Errorf("%s: %d of %d tensors were compared", o.Prefix, compared, n)
	}
}
