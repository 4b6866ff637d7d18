package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gpipebench/datasets"
	"gpipebench/datasets/baseline"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// A language model that has learned a text by heart goes on with it, beyond the length of
// an example too, however it is cut; the seed decides what is sampled.
func TestGenerate(t *testing.T) {
	const line = "the quick brown fox jumps over the lazy dog. "
	name := filepath.Join(t.TempDir(), "text.txt")
	testkit.NoError(t, os.WriteFile(name, []byte(strings.Repeat(line, 60)), 0o600))
	generated := func(change func(*train.Training)) *train.Generated {
		t.Helper()
		tr := traintest.TinyTraining()
		tr.Model.Dim, tr.Model.FF, tr.Model.Seq = 32, 64, 12
		tr.Data, tr.Batch, tr.Steps, tr.Generate = "text:"+name, 8, 400, 60
		change(&tr)
		r := testkit.Must(tr.Run(t.Context(), nil))(t)
		return r.Generated
	}
	one := generated(func(tr *train.Training) { tr.Setup.Partitions, tr.Setup.MicroBatches = 1, 1 })
	testkit.Equal(t, *generated(func(*train.Training) {}), *one, "in two pieces")
	if utf8.RuneCountInString(one.Prompt) != 6 || len(one.Greedy) != 60 || len(one.Sampled) != 60 {
		t.Errorf("%+v: want 6 bytes, and 60 more", *one)
	}
	testkit.Has(t, strings.Repeat(line, 3), one.Prompt+one.Greedy)
	if untrained := func(tr *train.Training) { tr.Steps = 1 }; generated(untrained).Sampled == generated(func(tr *train.Training) { tr.Steps, tr.Seed = 1, 2 }).Sampled {
		t.Error("another seed samples the same")
	}

	// Tokens that stand for no text are numbers, as many as there are.
	tr := traintest.TinyTraining()
	tr.Generate = 3
	r := testkit.Must(tr.Run(t.Context(), nil))(t)
	testkit.Equal(t, len(strings.Fields(r.Generated.Prompt)), 4, "tokens of %q", r.Generated.Prompt)
	testkit.Equal(t, len(strings.Fields(r.Generated.Greedy)), 3, "tokens of %q", r.Generated.Greedy)
	images := traintest.TinyImages()
	images.Generate = 3
	testkit.Refused(images.Run(t.Context(), nil))(t, "resnet50 generates no text: want transformer-lm")
}

// The file of translations has every held-out pair of each language, in order, and is
// what BLEU, smoothed BLEU and chrF are computed from.
func TestTranslations(t *testing.T) {
	if testing.Short() {
		t.Skip("trains until some translations are right, which takes seconds")
	}
	tr := traintest.TinyTraining()
	tr.Model.Name, tr.Data, tr.Batch, tr.Steps = train.Translator, "synthetic-translation", 16, 300
	tr.Config.Multilingual.Languages, tr.Config.Multilingual.Pairs = 2, 300
	tr.Model.Seq = 24
	opened := tr
	source := testkit.Must(opened.Source())(t)
	pairs := source.(*datasets.Translation)
	tr.Translations = filepath.Join(t.TempDir(), "translations.csv")
	r := testkit.Must(tr.Run(t.Context(), nil))(t)
	var bleu baseline.BLEU
	var chrF baseline.ChrF
	rows := rowsOf(t, tr.Translations)
	for i, l := range pairs.Languages() {
		for _, p := range pairs.Pairs(i, datasets.HeldOut) {
			row := rows[0]
			rows = rows[1:]
			want := map[string]string{"language": l.Name, "source": p.SourceText, "reference": p.TargetText, "translation": row["translation"]}
			testkit.EqualDeep(t, row, want)
			bleu.Add(row["translation"], row["reference"])
			chrF.Add(row["translation"], row["reference"])
		}
	}
	testkit.Equal(t, len(rows), 0, "rows too many")
	testkit.Equal(t, *r.Eval.ChrF, chrF.Score(), "chrF")
	testkit.Equal(t, *r.Eval.Smoothed, bleu.Smoothed(), "smoothed BLEU")
	testkit.Equal(t, *r.Eval.BLEU, bleu.Score(), "BLEU")
	if *r.Eval.BLEU == 0 {
		t.Skipf("%s kernels: no translation is right, so their order is not seen", nn.KernelProfile())
	}
}
