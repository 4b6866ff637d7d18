package gpipe

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"gpipebench/internal/kernel"
	"gpipebench/models/gnmt"
	"gpipebench/nn"
)

var update = flag.Bool("update", false, "write golden files anew: only after a change that should move them; then read them")

// TestGolden compares the SHA-256 of weights after small trainings with testdata/golden.json:
// the bits stay as they are from one version of the code to the next, and are the same on every
// profile of kernels and processor. After a change that must change them, run it with -update, and say so.
func TestGolden(t *testing.T) {
	const file = "testdata/golden.json"
	text := must(os.ReadFile(file))(t)
	golden := map[string]string{} // by training
	noError(t, json.Unmarshal(text, &golden))
	pieces := func(p Pipeline) Pipeline {
		p.Partitions, p.MicroBatches = 2, 2
		return p
	}
	ofImages := func(n images) func(t *testing.T) string {
		return func(t *testing.T) string { return train(t, pieces(n.pipeline(t, false)), 2, n.data).hash }
	}
	for name, hash := range map[string]func(t *testing.T) string{
		"transformer-lm":      func(t *testing.T) string { return blocky.train(t, pieces(blocky.pipeline(t))).hash },
		"transformer-lm-bf16": func(t *testing.T) string { return blocky.train(t, pieces(blocky.pipeline(t)).bf16()).hash },
		"transformer": func(t *testing.T) string {
			return smallTranslation.train(t, pieces(smallTranslation.pipeline(t))).hash
		},
		"gnmt":         func(t *testing.T) string { return smallTranslation.train(t, pieces(recurrentTranslator(t))).hash },
		"resnet":       ofImages(smallResNet),
		"amoebanet-d":  ofImages(smallAmoebaNet),
		"amoebanet-b":  ofImages(smallAmoebaNetB),
		"convolutions": ofImages(smallConvolutions),
		"ssd":          ofImages(smallSSD),
		"resnet-replicas": func(t *testing.T) string {
			p := pieces(smallResNet.pipeline(t, false))
			p.Replicas, p.Groups, p.BatchNormScope = 2, 2, AllScope
			return train(t, p, 2, smallResNet.data).hash
		},
		"transformer-lm-nesterov": func(t *testing.T) string {
			p := pieces(blocky.pipeline(t))
			p.Optimizer = nn.SGD{Momentum: 0.9, Nesterov: true}
			return blocky.train(t, p).hash
		},
		"transformer-lm-lars": func(t *testing.T) string { return blocky.train(t, pieces(blocky.layerWise(t, bothLARS[0]))).hash },
	} {
		t.Run(name, func(t *testing.T) {
			got := hash(t)
			if *update {
				golden[name] = got
				return
			}
			if want := golden[name]; got != want {
				t.Errorf("weights %s on %s kernels, want %q", got, kernel.Profile(), want)
			}
		})
	}
	if *update {
		text := must(json.MarshalIndent(golden, "", "  "))(t)
		noError(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
}

// recurrentTranslator is GNMT for the data of smallTranslation.
func recurrentTranslator(t testing.TB) Pipeline {
	t.Helper()
	m := smallTranslation.model
	layers := must(gnmt.New(gnmt.Config{
		Layers: 3, Dim: 10, SourceVocab: m.SourceVocab, SourceLen: m.SourceLen, TargetLen: m.TargetLen, Shared: true, Dropout: 0.2,
	}))(t)
	p := smallTranslation.pipeline(t)
	p.Layers = layers
	return p
}
