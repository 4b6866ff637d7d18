package nn_test

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
)

// TestAuxiliaryLoss: the total and its gradients equal the sum of the two separate
// losses, the second times the weight; hits and ranks belong to the first
// head.
func TestAuxiliaryLoss(t *testing.T) {
	const rows, classes = 5, 7
	r := philox.NewStream(philox.KeyOf(3, "logits"), 0)
	logits := [2][]float32{make([]float32, rows*classes), make([]float32, rows*classes)}
	for _, l := range logits {
		for i := range l {
			l[i] = float32(2 * r.Normal())
		}
	}
	targets := []int32{3, -1, 0, 6, 2}
	run := func(loss nn.Loss, heads ...[]float32) *programtest.Runner {
		n := programtest.Network{Loss: loss, Targets: []graph.Type{programtest.Integers(rows)}}
		for range heads {
			n.In = append(n.In, programtest.Floats(rows, classes))
		}
		p := programtest.CompileLayers(t, n)
		for i, l := range heads {
			copy(p.In(i), l)
		}
		copy(programtest.Ints(p.Feed(0)), targets)
		p.Env.LossScale = 0.25
		p.Keep()
		p.Backward()
		return p
	}
	plain := nn.CrossEntropy{Smoothing: 0.1, Ranks: true}
	main, second := run(plain, logits[0]), run(plain, logits[1])
	for _, c := range []struct{ given, want float32 }{{0, 0.4}, {0.75, 0.75}} {
		both := run(nn.AuxiliaryLoss{CrossEntropy: plain, Weight: c.given}, logits[0], logits[1])
		for i := range rows {
			testkit.Equal(t, both.Out(0)[i], main.Out(0)[i]+float32(c.want*second.Out(0)[i]), "weight %v: the loss of row %d", c.given, i)
			if both.Out(1)[i] != main.Out(1)[i] || both.Out(2)[i] != main.Out(2)[i] {
				t.Errorf("row %d: right %v, rank %v, want those of the first head, %v and %v", i, both.Out(1)[i], both.Out(2)[i], main.Out(1)[i], main.Out(2)[i])
			}
		}
		for i := range rows * classes {
			testkit.Equal(t, both.DIn(0)[i], main.DIn(0)[i], "gradient %d of the first head", i)
			testkit.Equal(t, both.DIn(1)[i], c.want*second.DIn(0)[i], "weight %v: gradient %d of the second head", c.given, i)
		}
	}
	// An evaluation has only the first head.
	alone := run(nn.AuxiliaryLoss{CrossEntropy: plain}, logits[0])
	for i, got := range alone.Out(0) {
		testkit.Equal(t, got, main.Out(0)[i], "without a second head: the loss of row %d", i)
	}
}
