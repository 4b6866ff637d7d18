package train

import (
	"encoding/json"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/internal/testkit"
)

// Whatever a file of weights says of them, its weights are taken, or refused in one
// line that does not repeat all of it.
func FuzzWeightsMetadata(f *testing.F) {
	network := Training{Model: Model{Name: LanguageModel, Layers: 2, Dim: 16, FF: 32, Heads: 2, Seq: 8, Vocab: 64}}
	pairs := testkit.Must(datasets.Open("synthetic-translation", datasets.Config{SeqLen: 24, Multilingual: datasets.MultilingualConfig{Languages: 1, Pairs: 10, Nouns: 4}}))(f)
	images := testkit.Must(datasets.NewSyntheticImages(datasets.Config{SyntheticImages: datasets.SyntheticImagesConfig{Classes: 2}}))(f)
	said := map[string]any{modelKey: network.Model}
	for _, s := range []datasets.Source{pairs, images} {
		for key, v := range meaning(s) {
			said[key] = v
		}
	}
	for key, v := range said {
		text := testkit.Must(json.Marshal(v))(f)
		f.Add(key, string(text))
	}
	f.Add(modelKey, `{"name":"resnet50","width":-1,"image":1,"classes":1}`)
	f.Add(modelKey, `{"name":"transformer","layers":1,"dim":8,"heads":-8,"seq":-1,"vocab":3,"tied":"x"}`)
	f.Add(modelKey, `{"name":"convnet","layers":2,"filters":1,"image":-3,"channels":-1,"classes":4}`)
	f.Add(PixelKey, `{"mean":[1e308],"deviation":null}`)
	f.Fuzz(func(t *testing.T, key, text string) {
		var m Model
		if json.Unmarshal([]byte(text), &m) == nil && m.Layers > 100 {
			t.Skip("takes long")
		}
		metadata := map[string]string{key: text}
		scale := images.Scale()
		defer func() { _ = images.Rescale(scale) }()
		training := network
		_, err := training.checkNetwork(metadata)
		errs := []error{err}
		for _, s := range []datasets.Source{pairs, images} {
			_, differences := training.checkMeaning("file", s, metadata)
			errs = append(errs, differences...)
		}
		for _, err := range errs {
			if err != nil && (strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 3000) {
				t.Errorf("%q: %.5000q", text, err)
			}
		}
	})
}
