package train_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// Replicas evaluate as one does, to the bit, with numbers of examples that they do not
// divide: of a mini-batch, of what is held out, and with more replicas than the last
// mini-batch has examples.
func TestEvaluationOverReplicas(t *testing.T) {
	lm := traintest.TinyTraining()
	lm.Config.Synthetic.HeldOut = 37
	images := traintest.TinyImages()
	images.Config.SyntheticImages.Train, images.Config.SyntheticImages.HeldOut = 17, 37
	images.Model.Image, images.Model.Classes = 64, 7
	pairs := traintest.TinyTraining()
	pairs.Model.Name, pairs.Data = train.Translator, "synthetic-translation"
	pairs.Model.Seq = 32
	pairs.Config.Translation.HeldOut = 37
	pairs.Config.Multilingual = datasets.MultilingualConfig{Languages: 2, Pairs: 100}
	for name, training := range map[string]train.Training{"language model": lm, "images": images, "translation": pairs} {
		for _, batch := range []int{8, 11, 17} {
			t.Run(fmt.Sprint(name, ", batch=", batch), func(t *testing.T) {
				var want string
				for r := 1; r <= 8; r++ {
					for _, kind := range []gpipe.Kind{gpipe.Host, gpipe.Emulated} {
						// Every number of replicas meets every size, and every kind of device both.
						if r > 1 && !testkit.IsDeep() && ((r+batch)%2 == int(kind) || testing.Short() && (r+batch)%3 != 0) {
							continue
						}
						run := training
						run.Batch, run.Setup.MicroBatches, run.Setup.Replicas, run.Setup.Device = batch, 1, r, kind
						got := evaluated(t, run)
						if want == "" {
							want = got
						}
						if got != want {
							t.Errorf("R = %d, %v: %s, want %s", r, kind, got, want)
						}
					}
				}
			})
		}
	}
}

// evaluated is an evaluation of the initial weights.
func evaluated(t *testing.T, training train.Training) string {
	t.Helper()
	l, err := training.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, err := l.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
