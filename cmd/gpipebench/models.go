package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/datasets"
	"gpipebench/gpipe/cluster"
	"gpipebench/internal/printable"
	"gpipebench/train"
)

// trainedModel is a network that two cores train in minutes. Its vocabulary and classes
// are as in the data.
var trainedModel = train.Model{Name: train.LanguageModel, Layers: 6, Dim: 64, FF: 256, Heads: 4, Seq: 64, Filters: 64}

// sizedModel is the same for commands that have no data.
func sizedModel() train.Model {
	m := trainedModel
	m.Vocab, m.Classes = 1024, 1000
	return m
}

// modelFlags begins the flags of a command with those that make a model, and makes the
// command refuse the flags of other networks than the named one. It returns the flags for
// the command to add its own.
func modelFlags(cmd *cobra.Command, m *train.Model, standard train.Model) *pflag.FlagSet {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return ownFlags(cmd, m) }
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&m.Name, "model", standard.Name, strings.Join(train.Models(), ", ")+", or a published llama such as llama3-8b"+
		"; the published ones set the sizes of a llama: "+strings.Join(train.PublishedModels(), ", "))
	zero := map[string]string{"image": "; 0: 224, for ssd-resnet34 300"}
	if standard.Vocab == 0 {
		zero = map[string]string{"vocab": "; 0: as in the data", "image": "; 0: as in the data", "classes": "; 0: as in the data"}
	}
	for _, s := range train.Sizes {
		if n := *s.Of(&standard); s.Flag != "" {
			count(fs, s.Of(m), s.Flag, n, min(n, 1), s.Most, s.Usage+zero[s.Flag]) // 0 where that is a default
		}
	}
	value(fs, &m.Tied, "tied", "none", "none|softmax|all", "tables that share weights; softmax: the softmax's and the target embedding's. all: the source embedding's too, for gnmt both embeddings'. Without a value: softmax", train.ParseTying)
	fs.Lookup("tied").NoOptDefVal = "softmax"
	number(fs, &m.RopeTheta, "rope-theta", 0, anything, "base of a llama's rotary position embedding; 0: 10000")
	fs.BoolVar(&m.FinalNorm, "final-norm", false, "add a layer norm before a Transformer's softmax")
	number(fs, &m.Aux, "aux", 0, span{most: 1e6}, "weight of an AmoebaNet's auxiliary loss, such as 0.4; 0: no auxiliary head")
	fs.BoolVar(&m.Official, "official", false, "amoebanetd: use the stem of the official code")
	fs.BoolVar(&m.Delayed, "delayed", false, "amoebanetd: reduce images later, by moving the first convolution's stride to the last cell")
	value(fs, &m.Fine, "split", "coarse", "coarse|fine", "where a pipeline may cut; coarse: after layers or blocks. fine: also within Transformer layers and between a block's convolutions", second("coarse", "fine"))
	return fs
}

// geluFlag is of commands that make no file of weights: what is trained has ReLU.
func geluFlag(fs *pflag.FlagSet, m *train.Model) {
	fs.BoolVar(&m.GELU, "gelu", false, "transformer-lm: use GELU instead of ReLU in feed-forward layers")
}

// imageFlags adds the flags of training on images.
func imageFlags(fs *pflag.FlagSet, t *train.Training) {
	number(fs, &t.Model.DropPath, "drop-path", 0, rates, "rate at which branches of an AmoebaNet's last cell are dropped, from 0 up to 1")
	value(fs, &t.Model.DropPathRise, "drop-path-rise", "", strings.Join(train.Rises, "|"), "whether the drop-path rate rises with depth, with the training steps or with both (default depth)", train.ParseRise)
	fs.BoolVar(&t.Model.ZeroInit, "zero-init", false, "ResNets, ssd-resnet34: initialise residual blocks as identities")
	number(fs, &t.Model.BNMomentum, "bn-momentum", 0, rates, "momentum of batch norm's moving averages; 0: 0.9")
	count(fs, &t.RecomputeStatistics, "recompute-statistics", 0, 0, datasets.MaxTrainImages, "training examples over which batch norm's statistics are recomputed for each evaluation; 0: use the moving averages")
	fs.BoolVar(&t.Config.Images.Flip, "flip", false, "mirror half of the training images")
	count(fs, &t.Config.Images.Crop, "crop", 0, 0, datasets.MaxImage/2, "largest shift of training images, in pixels")
	count(fs, &t.Config.Images.Cutout, "cutout", 0, 0, datasets.MaxImage, "side of a square blanked out in training images, in pixels")
	count(fs, &t.Config.SyntheticImages.Train, "train-images", 0, 0, datasets.MaxTrainImages, "training images of synthetic data; 0: 10000")
	count(fs, &t.Config.SyntheticImages.HeldOut, "held-out", 0, 0, datasets.MaxHeldOut, "held-out images of synthetic data; 0: 1000")
	fs.BoolVar(&t.Config.SyntheticImages.Fresh, "fresh", false, "make new synthetic images in every epoch")
	number(fs, &t.Config.SyntheticImages.Noise, "noise", 0, shares, "standard deviation of the noise on synthetic pixels, up to 1; 0: 0.03")
}

// publishedSizes gives a model that is named as a published network the name and the sizes of that
// network, unless their flags were given.
func publishedSizes(fs *pflag.FlagSet, m *train.Model) error {
	sizes, ok := train.PublishedModel(m.Name)
	if !ok {
		return nil
	}
	m.Name = sizes.Name
	return setFlags(fs, sizes.Flags()[2:], func(string) bool { return false })
}

// setFlags sets flags as words say, but for those that were given or are to be left out.
func setFlags(fs *pflag.FlagSet, words []string, leave func(name string) bool) error {
	for len(words) > 0 {
		name, v, joined := strings.Cut(strings.TrimPrefix(words[0], "--"), "=")
		if words = words[1:]; !joined {
			if v = "true"; len(words) > 0 && !strings.HasPrefix(words[0], "--") {
				v, words = words[0], words[1:]
			}
		}
		if f := fs.Lookup(name); !f.Changed && !leave(name) {
			if err := f.Value.Set(v); err != nil {
				return fmt.Errorf("--%s %s: %w", name, v, err)
			}
		}
	}
	return nil
}

// ownFlags refuses flags of other networks than the named one, which would have no
// effect, and unknown names, after a published network has got its sizes.
func ownFlags(cmd *cobra.Command, m *train.Model) (err error) {
	if err := publishedSizes(cmd.Flags(), m); err != nil {
		return err
	}
	model := m.Name
	if train.CheckModelName(model) != nil {
		return fmt.Errorf("--model: unknown model %s: want %s", printable.Quoted(model), strings.Join(slices.Concat(train.Models(), train.PublishedModels()), ", "))
	}
	if !slices.Contains(train.Models(), model) {
		return nil
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of := train.ModelsWith(f.Name); err == nil && len(of) > 0 && !slices.Contains(of, model) {
			err = fmt.Errorf("--%s: %s does not have this setting: want it with %s", f.Name, model, strings.Join(of, ", "))
		}
	})
	return err
}

// preset sets the flags of train that were not given: to the recipe, if one is named,
// and then to the network's preset.
func preset(cmd *cobra.Command, t *train.Training, recipe string) error {
	flags := cmd.Flags()
	long := flags.Changed("steps") || flags.Changed("epochs")
	set := map[string]bool{}
	use := func(words []string) error {
		return setFlags(flags, words, func(name string) bool {
			leave := set[name] || long && (name == "steps" || name == "epochs")
			set[name] = true
			return leave
		})
	}
	if recipe != "" {
		r, err := train.RecipeOf(recipe)
		if err == nil {
			err = use(strings.Fields(r.Flags))
		}
		if err != nil {
			return err
		}
	}
	p := train.PresetOf(t.Model.Name)
	if p == nil {
		return nil
	}
	if !long {
		t.Steps = 0
	}
	words := strings.Fields(p.Flags)
	if strings.HasPrefix(t.Data, "synthetic") {
		words = append(words, strings.Fields(p.Synthetic)...)
	}
	if err := use(words); err != nil {
		return err
	}
	if f := flags.Lookup("lr-schedule"); !f.Changed && !set["lr-schedule"] {
		if schedule := p.Schedule(t.Steps, t.Epochs); schedule != "" {
			return f.Value.Set(schedule)
		}
	}
	return nil
}

// recipeUsage returns the recipes for help.
func recipeUsage() string {
	var all []string
	for _, r := range train.Recipes {
		all = append(all, "Defaults of --recipe "+r.Name+" ("+r.What+"), which take precedence over the network's own defaults:\n  "+r.Flags)
	}
	return strings.Join(all, "\n")
}

// special reports whether a shell, or a terminal, may read more into a character.
func special(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.,:/+=%@", r)
}

// settings returns the flags of a command that were given or do not have their defaults, as they
// would be given: a default that was given may be in the place of a preset's value.
func settings(cmd *cobra.Command, besides ...string) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v := f.Value.String(); (f.Changed || v != f.DefValue) && !slices.Contains(besides, f.Name) {
			if strings.IndexFunc(v, special) >= 0 {
				v = cluster.Quoted(v)
			}
			words = append(words, "--"+f.Name+"="+v)
		}
	})
	return strings.Join(words, " ")
}

// presetUsage returns the networks' presets for help.
func presetUsage() string {
	var all []string
	for _, p := range append(train.Presets(false), train.Presets(true)...) {
		all = append(all, "Defaults of "+p.For+":\n  "+p.Flags+"\n  --lr-schedule "+p.Form)
	}
	return strings.Join(all, "\n")
}
