package nn_test

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestCrossEntropyAgainstPyTorch: with and without smoothing, a masked row,
// logits of up to a hundred.
func TestCrossEntropyAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/crossentropy.json")
	var config struct {
		Inputs    []string
		Smoothing map[string]float32
		Count     int
	}
	oracle.Config(&config)
	targets := oracle.Ints("targets")
	// A probability is the exponential of a difference of two numbers: its
	// relative error is the rounding of the larger, 4e-6 around a hundred.
	gradientTolerance := map[string]float64{"plain": oracleTolerance, "large": 1e-5}
	for _, input := range config.Inputs {
		for suffix, smoothing := range config.Smoothing {
			name := input + "/" + suffix
			t.Run(name, func(t *testing.T) {
				shape := oracle.Shape(input + "/logits")
				r := programtest.CompileLayers(t, programtest.Network{
					Loss:    nn.CrossEntropy{Smoothing: smoothing},
					In:      []graph.Type{programtest.Floats(shape...)},
					Targets: []graph.Type{programtest.Integers(shape[0])},
				})
				logits := oracle.Floats(input + "/logits")
				copy(r.In(0), logits)
				copy(programtest.Ints(r.Feed(0)), targets)
				r.Env.LossScale = 1 / float32(config.Count)
				r.Keep()
				r.Backward()
				oracle.Close(t, name+"/loss", r.Out(0), oracleTolerance)
				oracle.Close(t, name+"/dlogits", r.DIn(0), gradientTolerance[input])
				var total float64
				for _, l := range r.Out(0) {
					total += float64(l)
				}
				oracle.Close(t, name+"/mean", []float32{float32(total / float64(config.Count))}, oracleTolerance)

				classes := shape[1]
				for row, target := range targets {
					best := 0
					for c, v := range logits[row*classes : (row+1)*classes] {
						if v > logits[row*classes+best] {
							best = c
						}
					}
					want := float32(0)
					if int(target) == best {
						want = 1
					}
					testkit.Equal(t, r.Out(1)[row], want, "row %d: correct", row)
					if target < 0 && (r.Out(0)[row] != 0 || math.Signbit(float64(r.Out(0)[row]))) {
						t.Errorf("the masked row %d has the loss %v", row, r.Out(0)[row])
					}
				}
			})
		}
	}
}

// TestLossesOfOpsAgainstPyTorch: the mean squared error, and a focal loss made of
// ops alone.
func TestLossesOfOpsAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/shaping.json")
	shape := oracle.Shape("logits")
	for _, c := range []struct {
		name   string
		loss   nn.Loss
		target graph.Type
		fill   func(x []float32)
	}{
		{"squares", nn.MeanSquaredError{}, programtest.Floats(shape...), func(x []float32) { copy(x, oracle.Floats("goal")) }},
		{"focal", focal{}, programtest.Integers(shape[0]), func(x []float32) { copy(programtest.Ints(x), oracle.Ints("targets")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := programtest.CompileLayers(t, programtest.Network{
				Loss: c.loss, In: []graph.Type{programtest.Floats(shape...)}, Targets: []graph.Type{c.target},
			})
			copy(r.In(0), oracle.Floats("logits"))
			c.fill(r.Feed(0))
			r.Env.LossScale = 1 / float32(shape[0])
			r.Keep()
			r.Backward()
			oracle.Close(t, c.name+"/loss", r.Out(0), oracleTolerance)
			oracle.Close(t, c.name+"/dlogits", r.DIn(0), oracleTolerance)
		})
	}
}

// focal is the focal loss with gamma 2 (Lin et al. 2017, equation 4).
type focal struct{}

func (focal) Loss(t *nn.Trace, out, targets []*graph.Node) []*graph.Node {
	logits := out[0]
	p := t.Sum(t.Mul(t.Softmax(logits), t.OneHot(targets[0], logits.Shape.Last())), 1)
	q := t.Shift(t.Scale(p, -1), 1)
	return []*graph.Node{t.EndLoss(t.Scale(t.Mul(t.Mul(q, q), t.Log(p)), -1))}
}
