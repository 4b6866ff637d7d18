package train

import (
	"cmp"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/units"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// images are labelled images: see datasets.ImageSet.
type images struct{}

func (images) flags() string {
	return "image classes flip crop cutout train-images held-out fresh noise"
}

// imageShape returns the shape of one image.
func (m Model) imageShape() graph.Shape {
	size := cmp.Or(m.Image, m.network().image, 224)
	return graph.Shape{size, size, cmp.Or(m.Channels, 3)}
}

func (images) input(m Model, examples int) gpipe.Input {
	return gpipe.Input{
		Examples: examples, Inputs: []graph.Type{{Shape: m.imageShape(), DType: graph.F32}}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}},
	}
}

// random is a batch of noise with random classes.
func (images) random(m Model, examples int, seed uint64) (func() (nn.Batch, error), error) {
	return func() (nn.Batch, error) {
		random := philox.NewStream(philox.KeyOf(seed, "experiments/images"), 0)
		shape := m.imageShape()
		pixels, classes := make([]float32, examples*shape.Elems()), make([]int32, examples)
		random.Fill(pixels, philox.NormalWords, func(r *philox.Stream) float32 { return float32(r.Normal()) })
		for i := range classes {
			classes[i] = int32(random.Intn(m.Classes))
		}
		return nn.Batch{
			Inputs:  []nn.Tensor{{Shape: append([]int{examples}, shape...), F32: pixels}},
			Targets: []nn.Tensor{{Shape: []int{examples}, I32: classes}}, Count: examples,
		}, nil
	}, nil
}

// open sets the images' size and the number of classes.
func (images) open(t *Training) (datasets.Source, error) {
	spec, config := t.Data, t.Config
	if spec == "synthetic" {
		spec = "synthetic-images"
	}
	config.Seed, config.Images.Size = t.Seed, t.Model.Image
	if spec == "synthetic-images" {
		config.SyntheticImages.Classes = t.Model.Classes
	} else if spec != "synthetic-digits" && t.Config.SyntheticImages != (datasets.SyntheticImagesConfig{}) {
		return nil, failure.Usagef("data %q takes no number of images, noise or fresh images: want synthetic, or none of these settings", t.Data)
	}
	if err := config.Validate(); err != nil {
		return nil, failure.Usage(err)
	}
	s, err := openData(spec, config)
	if err != nil {
		return nil, err
	}
	labelled, ok := s.(*datasets.ImageSet)
	if !ok {
		return nil, failure.Usagef("%s has no images, which %s takes: want synthetic, synthetic-digits, cifar10:DIR, cifar100:DIR, mnist:DIR or images:DIR", s.Name(), t.Model.Name)
	}
	shape := labelled.Shape()
	t.Model.Image, t.Model.Channels = shape[0], shape[2]
	switch classes := labelled.Vocab(); {
	case t.Model.Classes == 0:
		t.Model.Classes = classes
	case t.Model.Classes < classes:
		return nil, failure.Usagef("%d classes for %s: want %d or more, as many as it has", t.Model.Classes, s.Name(), classes)
	}
	return s, nil
}

// prepareLast refuses, before the first step, a training whose epochs end in a
// mini-batch that is too short for batch norm.
func (l *Loop) prepareLast() error {
	t := l.training
	if !t.Model.Images() || l.Steps < t.epochSteps {
		return nil
	}
	last, err := l.Source.Batch(datasets.Train, t.epochSteps-1, t.Batch)
	if err != nil {
		return err
	}
	if err := l.Trainer.Prepare(gpipe.InputOf(last)); err != nil {
		return failure.Usagef("the last mini-batch of an epoch, of %s, with %s: %w", units.Counted(last.Examples(), "example"), units.Counted(t.Setup.MicroBatches, "micro-batch"), err)
	}
	return nil
}
