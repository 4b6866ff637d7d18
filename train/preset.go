package train

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/printable"
)

// Preset is what suits a network where its user does not say otherwise: minutes on
// two cores.
type Preset struct {
	For       string // the networks, for help
	Flags     string // of train, as they would be given
	Synthetic string // more of them, with synthetic data
	// Schedule returns the learning rate schedule for a number of steps or epochs, "" for
	// the one that is set; Form is its general form, for help.
	Schedule func(steps, epochs int) string
	Form     string
}

// PresetOf is a network's preset, nil if it has none.
func PresetOf(name string) *Preset { return Model{Name: name}.network().preset }

// Presets lists the presets of networks that take images, or of the others.
func Presets(ofImages bool) (all []*Preset) {
	for _, n := range networks {
		if n.preset != nil && (n.kind == images{}) == ofImages && !slices.Contains(all, n.preset) {
			all = append(all, n.preset)
		}
	}
	return all
}

// As a transformer-lm by default, but without dropout, and with the schedule of its papers.
var llamaPreset = &Preset{
	For:      Llama,
	Flags:    "--steps 1500 --dropout 0",
	Schedule: warmedCosine, Form: warmedCosineForm,
}

// For a BLEU above 90 where there is much to learn from.
var translatorPreset = &Preset{
	For:      Translator + " (a translator)",
	Flags:    "--data synthetic-translation --layers 2 --dim 64 --ff 256 --heads 4 --batch 64 --steps 3000 --lr 0.005 --dropout 0 --threads 2",
	Schedule: warmedCosine, Form: warmedCosineForm,
}

// The same for the recurrent translator.
var gnmtPreset = &Preset{
	For:      GNMT + " (a translator)",
	Flags:    "--data synthetic-translation --layers 2 --dim 64 --batch 64 --steps 3000 --lr 0.005 --dropout 0 --threads 2",
	Schedule: warmedCosine, Form: warmedCosineForm,
}

const warmedCosineForm = "warmup:W,cosine:(steps-W), where W is 200, or a quarter of the steps if that is less"

// warmedCosine leaves epochs, whose steps are not known yet, to Training.
func warmedCosine(steps, epochs int) string {
	warmUp := WarmUp(steps)
	if epochs > 0 || steps <= warmUp {
		return ""
	}
	return fmt.Sprintf("warmup:%d,cosine:%d", warmUp, steps-warmUp)
}

// For more than 90% of the synthetic images, learned by a small network. ResNets
// see little in images of less than 64 pixels.
var (
	amoebaPreset = &Preset{
		For:      AmoebaNet + " and " + AmoebaNetB,
		Flags:    "--layers 3 --filters 32 --batch 64 --epochs 10 --optimizer nesterov --lr 0.05 --l2 0.0001 --clip-norm 0 --dropout 0 --threads 2",
		Schedule: cosine, Form: cosineForm,
	}
	smallResNetPreset = &Preset{
		For:      "resnet20",
		Flags:    "--width 16 --batch 64 --epochs 4 --optimizer adam --lr 0.005 --l2 0.0001 --clip-norm 0 --dropout 0 --threads 2",
		Schedule: cosine, Form: cosineForm,
	}
	resNetPreset = &Preset{
		For:       "the larger ResNets, with synthetic images of 64 pixels a side",
		Flags:     "--width 16 --zero-init --batch 64 --epochs 4 --optimizer adam --lr 0.002 --l2 0.0001 --clip-norm 0 --dropout 0 --threads 2",
		Synthetic: "--image 64",
		Schedule:  cosine, Form: cosineForm,
	}
	detectorPreset = &Preset{
		For:       Detector + ", with synthetic images of 64 pixels a side",
		Flags:     resNetPreset.Flags,
		Synthetic: resNetPreset.Synthetic,
		Schedule:  cosine, Form: cosineForm,
	}
)

// Recipe is how a paper trained its networks: settings of train, which replace those of
// a network's preset.
type Recipe struct {
	Name  string
	Flags string // of train, as they would be given
	What  string // for help
}

// Recipes has the recipes by name. ImageNet's is from the section on image classification
// in both versions of the paper, whose figures are lost in part: they are taken from
// imagenet_hparams in the official code of AmoebaNet (models/official/amoeba_net of
// tensorflow/tpu), rate and warm-up included. Drop-path rises in both forms, as in
// NASNet's code, whose schedule the paper names.
var Recipes = []Recipe{{
	Name: "imagenet",
	Flags: "--optimizer rmsprop --lr 0.015 --lr-schedule batch/32,warmup:3epochs,exponential:0.97:2.4epochs --epochs 100 --clip-norm 10 --l2 0.00004 " +
		"--label-smoothing 0.1 --aux 0.4 --drop-path 0.3 --drop-path-rise both --dropout 0.5 --ema 0.9999 --bn-momentum 0.9997",
	What: "AmoebaNet on ImageNet",
}}

// RecipeOf finds a recipe by its name.
func RecipeOf(name string) (Recipe, error) {
	for _, r := range Recipes {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("unknown recipe %s: want %s", printable.Quoted(name), RecipeNames())
}

// RecipeNames lists the recipes' names, in words.
func RecipeNames() string {
	var names []string
	for _, r := range Recipes {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

const cosineForm = "warmup:1epochs,cosine:(epochs-1)epochs"

func cosine(steps, epochs int) string {
	switch {
	case epochs > 1:
		return fmt.Sprintf("warmup:1epochs,cosine:%depochs", epochs-1)
	case steps > 10:
		return fmt.Sprintf("warmup:%d,cosine:%d", steps/10, steps-steps/10)
	}
	return "constant"
}
