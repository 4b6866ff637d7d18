package workload

import (
	"strings"

	"gpipebench/datasets"
	"gpipebench/experiments/usage"
	"gpipebench/gpipe"
)

// openImages is source for a network that takes images: it settles the images'
// size and the number of classes.
func (t *Training) openImages() (datasets.Source, error) {
	spec := t.Data
	if spec == "synthetic" {
		spec = "synthetic-images"
	}
	config := datasets.Config{Seed: t.Seed, Images: t.Images, SyntheticImages: t.SyntheticImages}
	config.Images.Size = t.Model.Image
	if strings.HasPrefix(spec, "synthetic") {
		config.SyntheticImages.Classes = t.Model.Classes
	} else if t.SyntheticImages != (datasets.SyntheticImagesConfig{}) {
		return nil, usage.Errorf("data %q with a number of images, noise or fresh ones, which are settings of synthetic: want synthetic, or none of them", t.Data)
	}
	if err := config.Validate(); err != nil {
		return nil, usage.Mark(err)
	}
	s, err := datasets.Open(spec, config)
	if err != nil {
		if namesFiles(spec) {
			return nil, err // the files' fault
		}
		return nil, usage.Mark(err)
	}
	images, ok := s.(datasets.Images)
	if !ok {
		return nil, usage.Errorf("%s has no images, which %s takes: want synthetic, cifar10:DIR, cifar100:DIR, mnist:DIR or images:DIR", s.Name(), t.Model.Name)
	}
	shape := images.Shape()
	t.Model.Image, t.Model.Channels = shape[0], shape[2]
	switch classes := images.Vocab(); {
	case t.Model.Classes == 0:
		t.Model.Classes = classes
	case t.Model.Classes < classes:
		return nil, usage.Errorf("%d classes for %s: want %d or more, as many as it has", t.Model.Classes, s.Name(), classes)
	}
	return s, nil
}

// prepareLast refuses, before the first step, a training whose epochs end in a
// mini-batch that is too short for batch norm.
func (b *begun) prepareLast(t *Training) error {
	if !t.Model.Images() || b.Steps < t.epochSteps {
		return nil
	}
	last, err := b.Source.Batch(datasets.Train, t.epochSteps-1, t.Batch)
	if err != nil {
		return err
	}
	if err := b.Trainer.Prepare(gpipe.InputOf(last)); err != nil {
		return usage.Errorf("the last mini-batch of an epoch, of %d examples, with %d micro-batches: %w", last.Examples(), t.Setup.MicroBatches, err)
	}
	return nil
}
