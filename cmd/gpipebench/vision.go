package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/datasets"
	"gpipebench/experiments/workload"
)

// visionFlags adds the flags that only networks for images have.
func visionFlags(fs *pflag.FlagSet, m *workload.Model, standard workload.Model) {
	size := func(to *int, name string, standard int, usage string) {
		count(fs, to, name, standard, min(standard, 1), workload.MaxSize(name), usage)
	}
	size(&m.Filters, "filters", standard.Filters, "filters of amoebanetd's first stack of cells")
	size(&m.Width, "width", standard.Width, "channels of a ResNet's stem; 0: 64")
	image, classes := "height and width of images in pixels; 0: 224", "classes of images"
	if standard.Classes == 0 {
		image, classes = "height and width of images in pixels; 0: the data's", "classes of images; 0: as many as the data has"
	}
	size(&m.Image, "image", standard.Image, image)
	size(&m.Classes, "classes", standard.Classes, classes)
	number(fs, &m.Aux, "aux", 0, span{most: 1e6}, "weight of the loss of amoebanetd's auxiliary head, such as 0.4; 0: no head")
	fs.BoolVar(&m.Official, "official", false, "amoebanetd with the stem of the official code")
	fs.BoolVar(&m.Delayed, "delayed", false, "amoebanetd that is reduced later: strides moved from its first convolution to its last")
}

// imageFlags adds the flags of training on images.
func imageFlags(fs *pflag.FlagSet, t *workload.Training) {
	number(fs, &t.Model.DropPath, "drop-path", 0, rates, "rate at which branches of amoebanetd's last cell are left out, less in cells before it; from 0 up to 1")
	fs.BoolVar(&t.Model.ZeroInit, "zero-init", false, "blocks of a ResNet begin as identities")
	number(fs, &t.Model.BNMomentum, "bn-momentum", 0, rates, "share that batch norm's moving averages keep at each step; 0: 0.9")
	fs.BoolVar(&t.Images.Flip, "flip", false, "mirror half of the training images")
	count(fs, &t.Images.Crop, "crop", 0, 0, datasets.MaxImage/2, "shift training images by up to so many pixels")
	count(fs, &t.Images.Cutout, "cutout", 0, 0, datasets.MaxImage, "blank a square of that side in training images")
	count(fs, &t.SyntheticImages.Train, "train-images", 0, 0, datasets.MaxTrainImages, "training images of synthetic; 0: 10000")
	count(fs, &t.SyntheticImages.HeldOut, "held-out", 0, 0, datasets.MaxHeldOut, "held-out images of synthetic; 0: 1000")
	fs.BoolVar(&t.SyntheticImages.Fresh, "fresh", false, "new images of synthetic in every epoch")
	number(fs, &t.SyntheticImages.Noise, "noise", 0, shares, "deviation of the noise on the pixels of synthetic, up to 1; 0: 0.03")
}

// flagModels tells which networks have flags that not all have.
var flagModels = []struct{ models, flags []string }{
	{strings.Fields("transformer-lm transformer"), strings.Fields("dim ff heads vocab seq tied clip-logits scaled-init")},
	{strings.Fields("transformer"), strings.Fields("head-dim beam languages pairs temperature target-noise")},
	{strings.Fields("transformer-lm transformer amoebanetd"), strings.Fields("layers")},
	{strings.Fields("amoebanetd"), strings.Fields("filters aux official delayed drop-path")},
	{strings.Fields("resnet50 resnet101 resnet152"), strings.Fields("width zero-init")},
	{strings.Fields("amoebanetd resnet50 resnet101 resnet152"), strings.Fields("image classes bn-momentum flip crop cutout train-images held-out fresh noise")},
}

// ownFlags refuses flags of other kinds of networks than the one that is named,
// which would have no effect. Unknown names are refused where a model is built.
func ownFlags(cmd *cobra.Command, model string) (err error) {
	if !slices.Contains(workload.Models(), model) {
		return nil
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, of := range flagModels {
			if err == nil && slices.Contains(of.flags, f.Name) && !slices.Contains(of.models, model) {
				err = fmt.Errorf("--%s: %s has no such thing: want it with %s", f.Name, model, strings.Join(of.models, ", "))
			}
		}
	})
	return err
}

// Presets are what train does by default where the model sees images: minutes on
// two cores for more than 90% of the synthetic images, learned by a small network.
var (
	amoebaPreset = [][2]string{
		{"layers", "3"}, {"filters", "32"}, {"batch", "64"}, {"epochs", "10"}, {"optimizer", "nesterov"}, {"lr", "0.05"},
		{"l2", "0.0001"}, {"clip-norm", "0"}, {"dropout", "0"}, {"threads", "2"},
	}
	resNetPreset = [][2]string{
		{"width", "16"}, {"zero-init", "true"}, {"batch", "64"}, {"epochs", "4"}, {"optimizer", "adam"}, {"lr", "0.002"},
		{"l2", "0.0001"}, {"clip-norm", "0"}, {"dropout", "0"}, {"threads", "2"},
	}
)

// resNetImage is the size of the synthetic images for ResNets, which see little
// in smaller ones.
const resNetImage = "64"

// presetImages sets the flags that were not given to what suits a network for
// images.
func presetImages(cmd *cobra.Command, t *workload.Training) error {
	preset := amoebaPreset
	if t.Model.Name != "amoebanetd" {
		preset = resNetPreset
		if strings.HasPrefix(t.Data, "synthetic") {
			preset = append(slices.Clone(preset), [2]string{"image", resNetImage})
		}
	}
	steps := cmd.Flags().Changed("steps")
	if !steps {
		t.Steps = 0
	}
	for _, p := range preset {
		name, v := p[0], p[1]
		if f := cmd.Flags().Lookup(name); !f.Changed && !(name == "epochs" && steps) {
			if err := f.Value.Set(v); err != nil {
				return fmt.Errorf("--%s %s: %w", name, v, err)
			}
		}
	}
	f := cmd.Flags().Lookup("lr-schedule")
	if f.Changed {
		return nil
	}
	schedule := "constant"
	switch {
	case t.Epochs > 1:
		schedule = fmt.Sprintf("warmup:1epochs,cosine:%depochs", t.Epochs-1)
	case t.Steps > 10:
		schedule = fmt.Sprintf("warmup:%d,cosine:%d", t.Steps/10, t.Steps-t.Steps/10)
	}
	return f.Value.Set(schedule)
}

// imagesUsage is what presetImages does, for help.
func imagesUsage() string {
	var b strings.Builder
	for _, of := range []struct {
		models string
		preset [][2]string
	}{{"amoebanetd", amoebaPreset}, {"the ResNets, with synthetic images of " + resNetImage + " pixels a side", resNetPreset}} {
		if b.Len() > 0 {
			b.WriteString("\nand for ")
		}
		fmt.Fprintf(&b, "%s:\n ", of.models)
		for _, p := range of.preset {
			if p[1] == "true" {
				fmt.Fprintf(&b, " --%s", p[0])
				continue
			}
			fmt.Fprintf(&b, " --%s %s", p[0], p[1])
		}
	}
	return b.String() + "\nand --lr-schedule warmup:1epochs,cosine:(epochs-1)epochs"
}
