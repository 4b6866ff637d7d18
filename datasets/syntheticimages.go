package datasets

import (
	"cmp"
	"fmt"

	"gpipebench/nn/philox"
)

// NewSyntheticImages returns the procedural image task of a configuration:
// shapes filled with textures, see figures. Images are drawn on demand, each a
// pure function of (seed, split, number), and all classes are equally frequent.
// Nothing linear in the pixels distinguishes classes; a small convolutional
// network (78 thousand parameters) passes 90% after about five thousand
// presentations at 16x16.
func NewSyntheticImages(c Config) (*ImageSet, error) {
	if err := c.validateSyntheticImages(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	i := c.SyntheticImages
	f := &figures{size: cmp.Or(c.Images.Size, 32), first: i.First, classes: i.Classes, noise: float32(i.Noise)}
	for _, split := range []Split{Train, HeldOut} {
		f.keys[split] = philox.KeyOf(c.Seed, fmt.Sprintf("datasets/synthetic-images/%v", split))
	}
	s := newImageSet("synthetic-images", f.names(), f.size, 3, c)
	s.pixels, s.fresh = f, i.Fresh
	s.examples = [2]int{Train: i.Train, HeldOut: i.HeldOut}
	// Colours are symmetric around the middle; with the default noise their
	// deviation is 0.23.
	s.normalize(PixelScale{Mean: []float64{0.5, 0.5, 0.5}, Deviation: []float64{0.23, 0.23, 0.23}})
	return s, nil
}
