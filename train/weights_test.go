package train_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/safetensors"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// Which settings of a network decide what it computes with its weights is found
// out, setting by setting; and the fingerprints of networks stay: files of weights
// have them, and are refused where they change.
func TestModelFingerprint(t *testing.T) {
	text := train.Model{Layers: 2, Dim: 16, FF: 32, Heads: 2, Vocab: 20, Seq: 8}
	images := train.Model{Layers: 3, Filters: 16, Width: 4, Image: 32, Classes: 4}
	changed := reflect.ValueOf(train.Model{
		Layers: 6, Dim: 32, FF: 48, Heads: 4, Vocab: 24, Seq: 12, Tied: "softmax", Fine: true, HeadDim: 16, SourceVocab: 30,
		Filters: 32, Width: 8, Image: 33, Channels: 1, Classes: 5, Aux: 0.4, DropPath: 0.1, Official: true, Delayed: true, ZeroInit: true,
		BNMomentum: 0.5, Dropout: 0.1, ScaledInit: true, ClipLogits: 30, FinalNorm: true,
	})
	for _, c := range []struct {
		name   string
		model  train.Model
		sha256 string
		// The settings that decide, those that do not, and those that the network
		// does not have.
		decide, not, none string
	}{
		{train.LanguageModel, text, "a29bf51087f421d17cf27ca87276588637edc284dca4bf01cbb246ff0444ca3d", "layers dim ff heads vocab tied final_norm clip_logits", "seq fine dropout scaled_init", "head_dim"},
		{train.Translator, text, "fc234569d5e3bee17ee414fc8b6c032ceadeadab663422175b4abc300de9651c", "layers dim ff heads vocab tied head_dim source_vocab final_norm clip_logits", "seq fine dropout scaled_init", ""},
		{train.AmoebaNet, images, "ff42374a3717f033287d91269f63ddbfecaccf35cc2f0e7c66662f1214de02e8", "layers filters image channels classes aux official delayed", "drop_path bn_momentum dropout", "fine clip_logits final_norm"},
		{"resnet50", images, "befd456e9f211154e8a7ce3df7cb8efc65147800470bc00a9a2397dda8cbb8c8", "width channels classes", "image fine bn_momentum zero_init", "aux drop_path official delayed dropout clip_logits final_norm"},
	} {
		c.model.Name = c.name
		base := testkit.Must(c.model.Fingerprint())(t)
		testkit.Equal(t, base, c.sha256, "%s: fingerprint", c.name)
		settings := map[string]string{}
		for i := range changed.NumField() {
			m := c.model
			reflect.ValueOf(&m).Elem().Field(i).Set(changed.Field(i))
			setting, _, _ := strings.Cut(changed.Type().Field(i).Tag.Get("json"), ",")
			if setting == "name" {
				continue
			}
			got, err := m.Fingerprint()
			how := "decides"
			switch {
			case err != nil:
				how = "is none"
			case got == base:
				how = "does not decide"
			}
			settings[setting] = how
		}
		for how, names := range map[string]string{"decides": c.decide, "does not decide": c.not, "is none": c.none} {
			for _, setting := range strings.Fields(names) {
				testkit.Equal(t, settings[setting], how, "%s: %s", c.name, setting)
				delete(settings, setting)
			}
		}
		for setting, how := range settings { // of other networks
			testkit.Equal(t, how, "does not decide", "%s: %s", c.name, setting)
		}
	}
}

// withMetadata copies a file of weights with other metadata.
func withMetadata(t *testing.T, file string, change func(map[string]string)) string {
	t.Helper()
	f := testkit.Must(safetensors.Open(file))(t)
	defer f.Close()
	var tensors []safetensors.Tensor
	for i, e := range f.Tensors {
		data := make([]float32, e.Elems())
		testkit.NoError(t, f.Floats(i, data))
		tensors = append(tensors, safetensors.Tensor{Name: e.Name, Shape: e.Shape, Data: data})
	}
	metadata := maps.Clone(f.Metadata)
	change(metadata)
	other := filepath.Join(t.TempDir(), "changed.safetensors")
	testkit.NoError(t, safetensors.WriteFile(other, tensors, metadata))
	return other
}

// saved is the file of a training's weights, and what it evaluates to.
func saved(t *testing.T, training train.Training) (file string, e *train.Evaluation) {
	t.Helper()
	training.Save = filepath.Join(t.TempDir(), "weights.safetensors")
	r := testkit.Must(training.Run(t.Context(), nil))(t)
	return training.Save, r.Eval
}

// loading evaluates the weights of a file, and collects the messages.
func loading(t *testing.T, training train.Training, file string) (e *train.Evaluation, notices string, err error) {
	t.Helper()
	training.Load, training.Steps, training.Epochs = file, 0, 0
	training.Notice = func(what string) {
		if !strings.Contains(what, " to train on, ") { // about the data
			notices += what + "\n"
		}
	}
	r, err := training.Run(t.Context(), nil)
	if err != nil {
		testkit.FailsFirst(t, err, file)
		return nil, notices, err
	}
	return r.Eval, notices, nil
}

// refused checks that the weights of a file are not loaded, and that all of says is said.
func refused(t *testing.T, training train.Training, file string, says ...string) {
	t.Helper()
	_, _, err := loading(t, training, file)
	testkit.Fails(t, err, says...)
}

// Files of older versions say less, those of other programs nothing: they are
// loaded, and a message names what could not be checked. The entries of an older file are checked.
func TestLoadUnsaid(t *testing.T) {
	training := traintest.TinyTraining()
	training.Model.ClipLogits = 30
	file, want := saved(t, training)
	older := withMetadata(t, file, func(m map[string]string) { delete(m, gpipe.FunctionKey) })
	foreign := withMetadata(t, file, clearAll)
	for _, c := range []struct{ file, notice string }{{file, ""}, {older, ""}, {foreign, foreign + " does not say of which network"}} {
		e, notices, err := loading(t, training, c.file)
		if err != nil || e.Loss != want.Loss || c.notice == "" && notices != "" || !strings.Contains(notices, c.notice) {
			t.Errorf("%v, told %q, %+v: want %q, %+v", err, notices, e, c.notice, want)
		}
	}
	other := training
	other.Model.ClipLogits, other.Model.Tied = 0, "softmax"
	for _, file := range []string{file, older} {
		refused(t, other, file, `tied "", and this one has "softmax"; with clip-logits 30, and this one has 0`)
	}
	// Of a version that computes something else for the same settings.
	changed := withMetadata(t, file, func(m map[string]string) { m[gpipe.FunctionKey] = strings.Repeat("0", 64) })
	refused(t, training, changed, "the SHA-256 of its function is")
}

func clearAll(m map[string]string) { clear(m) }

// A translator's vocabularies are in its file, and others are refused, although
// they are of the same size.
func TestLoadVocabulary(t *testing.T) {
	catalogs := func(language string) string {
		return "gettext:" + gettexttest.Folder(t, map[string]int{language: 60})
	}
	training := traintest.TinyTraining()
	training.Model = train.Model{Name: train.Translator, Layers: 1, Dim: 16, FF: 16, Heads: 2, Seq: 64, Vocab: 24}
	training.Data = catalogs("de")
	file, want := saved(t, training)

	e, notices, err := loading(t, training, file)
	if err != nil || notices != "" || *e.BLEU != *want.BLEU {
		t.Errorf("%v, told %q: want BLEU %v again", err, notices, *want.BLEU)
	}
	older := withMetadata(t, file, func(m map[string]string) { delete(m, train.SourceKey); delete(m, train.TargetKey) })
	_, notices, err = loading(t, training, older)
	testkit.NoError(t, err)
	testkit.Has(t, notices, "source vocabulary, target vocabulary")
	other := training
	other.Data = catalogs("fr")
	refused(t, other, file, "its source vocabulary: not that of gettext:")
	// The same texts on both sides of another order of joins.
	joins := withMetadata(t, file, func(m map[string]string) {
		m[train.TargetKey] = strings.Replace(m[train.TargetKey], `"joins":[[`, `"joins":[[1`, 1)
	})
	refused(t, training, joins, "its target vocabulary", "joined in another order")
	broken := withMetadata(t, file, func(m map[string]string) { m[train.TargetKey] = "\x1b[2J{" })
	refused(t, training, broken, `its metadata target_vocabulary is "\x1b[2J{"`)
}

// The names of classes and the scale of pixels are in the file: other names are
// refused, and pixels are scaled as they were in training, not as other images are.
func TestLoadClassesAndPixels(t *testing.T) {
	folder := func(shade int, classes ...string) string {
		dir := t.TempDir()
		for c, class := range classes {
			testkit.NoError(t, os.Mkdir(filepath.Join(dir, class), 0o700))
			for i := range 7 {
				m := image.NewGray(image.Rect(0, 0, 16, 16))
				for p := range m.Pix {
					m.Pix[p] = color.Gray{Y: uint8(shade + 40*c + 7*i + p%16*4)}.Y
				}
				f := testkit.Must(os.Create(filepath.Join(dir, class, fmt.Sprint(i, ".png"))))(t)
				testkit.NoError(t, png.Encode(f, m))
				f.Close()
			}
		}
		return "images:" + dir
	}
	training := traintest.TinyImages()
	training.Config.SyntheticImages.Train, training.Config.SyntheticImages.HeldOut = 0, 0
	training.Model.Image = 16
	training.Data = folder(0, "cat", "dog")
	file, want := saved(t, training)
	on := func(data string) train.Training {
		other := training
		other.Data = data
		return other
	}
	if e, notices, err := loading(t, training, file); err != nil || notices != "" || e.Loss != want.Loss {
		t.Errorf("%v, told %q: want loss %v again", err, notices, want.Loss)
	}
	refused(t, on(folder(0, "cat", "elk")), file, `number 1 is "dog" in the file, and "elk" in the data`)
	refused(t, on(folder(0, "cat", "dog", "elk")), file, "2 in the file, and 3 in the data")

	// Lighter images are lighter: by their own mean they would look the same.
	lighter := on(folder(100, "cat", "dog"))
	e, notices, err := loading(t, lighter, file)
	testkit.NoError(t, err)
	testkit.Has(t, notices, "pixels are scaled as "+file+" says: means [")
	older := withMetadata(t, file, func(m map[string]string) { delete(m, train.PixelKey); delete(m, train.ClassKey) })
	own, notices, err := loading(t, lighter, older)
	testkit.NoError(t, err)
	testkit.Has(t, notices, "does not say of which classes, pixels its weights are")
	if own.Loss == e.Loss {
		t.Errorf("loss %v by the file's scale and by the images' own", e.Loss)
	}
	for _, bad := range []string{`{"mean":[0,0],"deviation":[1,1]}`, `{"mean":[0,0,0],"deviation":[1,0,1]}`, `{"mean":[0,0,0],"deviation":[1,1,1e300]}`} {
		broken := withMetadata(t, file, func(m map[string]string) { m[train.PixelKey] = bad })
		refused(t, training, broken, "its pixels")
	}

	f := testkit.Must(safetensors.Open(file))(t)
	defer f.Close()
	var classes []string
	testkit.NoError(t, json.Unmarshal([]byte(f.Metadata[train.ClassKey]), &classes))
	testkit.EqualAll(t, classes, []string{"cat", "dog"}, "classes")
}

// A part of a file's weights is loaded into a larger network, and what is left out is
// said.
func TestLoadPart(t *testing.T) {
	training := traintest.TinyTraining()
	file, _ := saved(t, training)
	larger := training
	larger.Model.Layers, larger.LoadPart = 3, file
	var notices []string
	larger.Notice = func(what string) { notices = append(notices, what) }
	testkit.Must(larger.Run(t.Context(), nil))(t)
	if len(notices) != 1 || !strings.HasPrefix(notices[0], file+`: not loaded: 12 tensors that the file lacks, which keep their initial values: "layer3/`) || !strings.HasSuffix(notices[0], " and 4 more") {
		t.Errorf("%q", notices)
	}
	// The last layer is new although its shape fits.
	fresh := training
	fresh.LoadPart, fresh.NewLast, notices = file, true, nil
	fresh.Notice = larger.Notice
	testkit.Must(fresh.Run(t.Context(), nil))(t)
	if len(notices) != 2 || !strings.Contains(notices[0], " or that are of the last layer, which keep their initial values: \"softmax/") {
		t.Errorf("%q", notices)
	}
	larger.Load = file
	testkit.Refused(larger.Run(t.Context(), nil))(t, "want one of them")
	// Images of other classes: the pixels are scaled as in the file, and the classes are said.
	images := traintest.TinyImages()
	file, _ = saved(t, images)
	file = withMetadata(t, file, func(m map[string]string) { m[train.ClassKey] = `["a","b"]` })
	images.LoadPart, notices = file, nil
	images.Notice = func(what string) { notices = append(notices, what) }
	testkit.Equal(t, testkit.Must(images.Run(t.Context(), nil))(t).Untrained, 0, "initial values of loaded statistics")
	if len(notices) != 1 || !strings.HasPrefix(notices[0], file+": its classes: not that of ") {
		t.Errorf("%q", notices)
	}
}

// A file of weights says with which activations they were trained, and loading it for others
// says so.
func TestWeightsOfBF16(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.safetensors")
	training := func(dt graph.DType, notice func(string)) train.Training {
		return train.Training{
			Model: train.Model{Name: train.LanguageModel, Layers: 1, Dim: 16, FF: 16, Heads: 2, Vocab: 16, Seq: 8}, Data: "synthetic",
			Setup: train.Setup{Partitions: 1, MicroBatches: 1, DType: dt}, Batch: 4, Seed: 1, Optimizer: "sgd", LR: 0.1, LRSchedule: "constant", Notice: notice,
		}
	}
	saving := training(graph.BF16, nil)
	saving.Save = file
	testkit.Must(saving.Run(t.Context(), nil))(t)
	for dt, want := range map[graph.DType]bool{graph.F32: true, graph.BF16: false} {
		said := ""
		loading := training(dt, func(what string) { said += what })
		loading.Load = file
		testkit.Must(loading.Run(t.Context(), nil))(t)
		testkit.Equal(t, strings.Contains(said, "trained with bf16 activations, and this network computes with f32"), want, "loaded for %v: %q", dt, said)
	}
}
