package train

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
	"gpipebench/models/llama"
	"gpipebench/nn"
)

// TestVisionModels: the names that describe, train and bench take, with the
// parameters of the papers' networks.
func TestVisionModels(t *testing.T) {
	for _, c := range []struct {
		model Model
		want  int64
	}{
		{Model{Name: "amoebanetd", Layers: 72, Filters: 512, Classes: 1000}, 1_844_858_344},
		{Model{Name: "amoebanetd", Layers: 18, Filters: 208, Classes: 1000, Official: true, Aux: 0.4}, 81_781_529},
		{Model{Name: "amoebanetd", Layers: 6, Filters: 64, Classes: 1000, Image: 64, Delayed: true}, 3_701_096},
		{Model{Name: "amoebanetb", Layers: 18, Filters: 512, Classes: 1000, Image: 480}, 557_277_864},
		{Model{Name: "resnet50", Classes: 1000}, 25_557_032},
		{Model{Name: "resnet101", Classes: 1000, Fine: true}, 44_549_160},
		{Model{Name: "resnet152", Classes: 1000}, 60_192_808},
		{Model{Name: "ssd-resnet34", Classes: 81}, 19_972_534}, // see models/ssd
	} {
		layers := testkit.Must(c.model.Build())(t, "%+v", c.model)
		loss := testkit.Must(c.model.Loss(0.1))(t)
		testkit.Equal(t, nn.CountParams(layers), c.want, "%s: parameters", c.model.Name)
		d := testkit.Must(gpipe.Pipeline{Layers: layers, Loss: loss}.Describe(c.model.Input(2)))(t, "%s", c.model.Name)
		testkit.Equal(t, d.Layers[len(d.Layers)-1].OutShape[0].Last(), c.model.Classes, "%s: logits", c.model.Name)
	}
}

// GNMT at full size: see models/gnmt.
func TestRecurrentTranslator(t *testing.T) {
	m := Model{Name: GNMT, Layers: 4, Dim: 1024, Vocab: 32320, Seq: 50, Tied: "all"}
	d, err := Described(m)
	if err != nil || d.Params != 160_634_433 || len(d.OutsideContract) > 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	testkit.Equal(t, d.Layers[len(d.Layers)-1].OutShape[0].Last(), m.Vocab, "logits")
}

// TestPublishedModels: each name gives a model of the published number of parameters, whose flags
// give the same model again.
func TestPublishedModels(t *testing.T) {
	for _, name := range PublishedModels() {
		m, ok := PublishedModel(name)
		n, _ := llama.Named(name)
		layers, err := m.Build()
		if !ok || err != nil || nn.CountParams(layers) != n.Params {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if flags := strings.Join(m.Flags(), " "); !strings.Contains(flags, fmt.Sprint("--kv-heads ", n.Config.KVHeads)) ||
			strings.Contains(flags, "--rope-theta") != (n.Config.RopeTheta != 0) {
			t.Errorf("%s: %s", name, flags)
		}
	}
	if _, ok := PublishedModel("llama"); ok {
		t.Error("llama has no sizes")
	}
}

// What does not belong to a model is refused, not ignored.
func TestVisionModelsRefuse(t *testing.T) {
	amoeba := Model{Name: "amoebanetd", Layers: 6, Filters: 64, Classes: 10}
	resnet := Model{Name: "resnet50", Classes: 10}
	grouped := Model{Name: "llama", Layers: 1, Dim: 8, FF: 8, Heads: 4, KVHeads: 2, Vocab: 5, Seq: 3}
	recurrent := Model{Name: "gnmt", Layers: 2, Dim: 4, Vocab: 5, Seq: 3}
	for _, c := range []struct {
		model  Model
		change func(*Model)
		want   string
	}{
		{amoeba, func(m *Model) { m.Layers = 7 }, "multiple of 3"},
		{amoeba, func(m *Model) { m.Filters = 0 }, "multiple of 8"},
		{amoeba, func(m *Model) { m.Classes = 0 }, "classes is 0"},
		{amoeba, func(m *Model) { m.Image = 8 }, "too small"},
		{amoeba, func(m *Model) { m.Aux = -1 }, "positive number, or 0 for no head"},
		{amoeba, func(m *Model) { m.DropPath = 1 }, "drop-path"},
		{amoeba, func(m *Model) { m.Fine = true }, "coarse split"},
		{amoeba, func(m *Model) { m.ClipLogits = 1 }, "does not clip"},
		{amoeba, func(m *Model) { m.DropPathRise = "width" }, "want depth, steps, both"},
		{amoeba, func(m *Model) { m.Name, m.Delayed = "amoebanetb", true }, "or amoebanetd"},
		{resnet, func(m *Model) { m.Aux = 0.4 }, "no auxiliary head"},
		{resnet, func(m *Model) { m.DropPath = 0.4 }, "no drop-path"},
		{resnet, func(m *Model) { m.Dropout = 0.1 }, "no dropout"},
		{resnet, func(m *Model) { m.Width = -1 }, "width is -1"},
		{resnet, func(m *Model) { m.Name, m.Width = "ssd-resnet34", 5 }, "width is 5, want an even number"},
		{resnet, func(m *Model) { m.Name, m.Dropout = "ssd-resnet34", 0.1 }, "no dropout"},
		{grouped, func(m *Model) { m.KVHeads = 3 }, "kv-heads is 3, want a divisor of 4 heads"},
		{grouped, func(m *Model) { m.HeadDim = 3 }, "head-dim is 3, want an even number"},
		{grouped, func(m *Model) { m.RopeTheta = 0.5 }, "rope-theta is 0.5, want more than 1"},
		{grouped, func(m *Model) { m.Dropout = 0.1 }, "no dropout"},
		{grouped, func(m *Model) { m.ClipLogits = 1 }, "neither clips logits"},
		{grouped, func(m *Model) { m.FinalNorm = true }, "always has a final norm"},
		{grouped, func(m *Model) { m.KVHeads = 1 << 21 }, "heads of keys and values: want at most"},
		{recurrent, func(m *Model) { m.Layers = 1 }, "layers is 1, want at least 2"},
		{recurrent, func(m *Model) { m.Tied = "softmax" }, "a softmax of its own"},
		{recurrent, func(m *Model) { m.Tied, m.SourceVocab = "all", 6 }, "want one vocabulary"},
		{recurrent, func(m *Model) { m.Fine = true }, "coarse split"},
		{recurrent, func(m *Model) { m.ClipLogits = 1 }, "does not clip"},
		{recurrent, func(m *Model) { m.SoftClip = true }, "does not clip"},
		{recurrent, func(m *Model) { m.Name, m.FF, m.Heads, m.SoftClip = Translator, 4, 1, true }, "soft-clip without a limit"},
		{grouped, func(m *Model) { m.SoftClip = true }, "neither clips logits"},
		{resnet, func(m *Model) { m.Name = "resnet18" }, "want transformer-lm, transformer, gnmt, amoebanetd, amoebanetb, resnet20, resnet50, resnet101, resnet152, ssd-resnet34, llama"},
	} {
		m := c.model
		c.change(&m)
		_, err := m.Build()
		var usage *failure.UsageError
		testkit.Fails(t, err, c.want)
		testkit.Equal(t, errors.As(err, &usage), true, "%+v: a mistake of usage: %v", m, err)
	}
}
