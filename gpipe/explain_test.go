package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"gpipebench/gpipe/timeline"
	"gpipebench/internal/machine"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// A token or target out of range is named by its place in the batch, whichever stage
// found it.
func TestTokenOutside(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		vocab := int32(small.model.Vocab)
		last := small.data(0).Examples() - 1
		for _, c := range []struct {
			what  string
			value int32
			of    func(nn.Batch) nn.Tensor
		}{
			{"token", vocab, func(b nn.Batch) nn.Tensor { return b.Inputs[0] }},
			{"token", -1, func(b nn.Batch) nn.Tensor { return b.Inputs[0] }},
			{"target", vocab, func(b nn.Batch) nn.Tensor { return b.Targets[0] }},
		} {
			b := small.data(0)
			ids := c.of(b)
			ids.I32[len(ids.I32)-2] = c.value
			err := failing(t, context.Background(), p, b)
			want := fmt.Sprintf("example %d, position %d: %s %d: want 0 to %d", last, ids.Shape[1]-2, c.what, c.value, vocab-1)
			if !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v: want %s", err, want)
			}
		}
	})
}

// An evaluation with a weight that is not finite reports the origin of the value, and
// the trainer can be used afterwards.
func TestNaNOfAnEvaluation(t *testing.T) {
	every(t, func(t *testing.T, p Pipeline) {
		p.Layers[4] = poisoned{p.Layers[4], &nn.Param{Name: "poison", Shape: graph.Shape{small.model.Dim}, Init: nn.Constant(float32(math.NaN()))}}
		tr, err := openForAll(p, InputOf(small.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for range 2 {
			_, err := tr.Evaluate(t.Context(), small.data(0))
			var nf *NonFiniteError
			if !errors.As(err, &nf) || nf.Where != p.Layers[4].Name() || nf.Op != "bias" {
				t.Errorf("%v: want the bias of %s", err, p.Layers[4].Name())
			}
		}
	})
}

// The collector is restored, also after steps that fail, and not before the last of
// overlapping pauses ends.
func TestCollectorResumes(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(-1)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	first := pauseCollector()
	second := pauseCollector()
	first()
	first() // has no effect
	if percent() != -1 {
		t.Error("on again while the second pause lasts")
	}
	second()
	if got := percent(); got != before {
		t.Errorf("%d after both pauses, want %d", got, before)
	}
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches, p.Devices = 2, 2, []Device{{Kind: Emulated}}
	during := 0
	ctx, cancel := context.WithCancel(context.Background())
	for _, end := range []func(){func() {}, func() { panic("boom") }, cancel} {
		p.testing.inTask = func(_ int, kind timeline.Kind, _ int) {
			during = percent()
			if kind == timeline.Backward {
				end()
			}
		}
		tr, err := p.Open(InputOf(small.data(0)))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tr.Step(ctx, small.data(0))
		tr.Close()
		if got := percent(); got != before || during != -1 {
			t.Errorf("%d during a step and %d after it, want -1 and %d", during, got, before)
		}
	}
}

func TestAbsurdSizes(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(p *Pipeline, in *Input)
	}{
		{"1000000000 partitions of 8 layers", func(p *Pipeline, _ *Input) { p.Partitions = 1e9 }},
		{"a mini-batch of 1000000000000 examples: want 1 to", func(_ *Pipeline, in *Input) { in.Examples = 1e12 }},
		{"on 8 partitions: want a product of at most", func(p *Pipeline, in *Input) { p.Partitions, p.MicroBatches, in.Examples = 8, 1e6, 1e6 }},
		{"wide: a result of matmul has shape (16777216,7,1000000)", func(p *Pipeline, in *Input) {
			in.Examples = MaxExamples
			p.Layers = append(p.Layers, nn.Sequential("wide", nn.NewDense("", nn.DenseConfig{In: small.model.Vocab, Out: 1e6})))
		}},
	} {
		p := small.pipeline(t)
		in := InputOf(small.data(0))
		c.change(&p, &in)
		if _, err := p.Plans(in); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: want one line with %q", err, c.want)
		}
	}
}

// Devices that together plan more memory than the machine has are refused before any
// is allocated, although each alone would get its memory.
func TestMoreThanTheMachineHas(t *testing.T) {
	memory, swap := machine.MemoryAndSwap()
	has := memory + swap
	if has == 0 {
		t.Skip("the machine's memory is not known")
	}
	p := small.pipeline(t)
	floats := int(has / 4 / 3)
	var layers []nn.Layer
	for i := range 2 {
		layers = append(layers, nn.Sequential(fmt.Sprint("wide", i), nn.NewDense("", nn.DenseConfig{In: floats / 1024, Out: 1024}), nn.NewDense("back", nn.DenseConfig{In: 1024, Out: floats / 1024})))
	}
	p.Layers, p.Partitions = layers, 2
	in := Input{Examples: 1, Inputs: []graph.Type{{Shape: graph.Shape{floats / 1024}, DType: graph.F32}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}}}
	tr, err := p.Open(in)
	if err == nil {
		tr.Close()
	}
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("this machine has %d", has)) {
		t.Errorf("%v: want the machine's memory", err)
	}
}
