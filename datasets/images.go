package datasets

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// ImageSet is a Source of labelled images. A batch has one input (N, H, W, C),
// float32, and one target (N), int32, the class; Count is N. A pixel is (p/255
// - mean) / deviation, with constants of the data set for each channel, so that
// values have mean 0 and deviation 1, approximately. Vocab is the number of
// classes.
//
// An epoch visits every training image once, in random order. The augmentation
// of an image is a function of (seed, epoch, image); the held-out split is
// never augmented. The last batch of a pass is short if the batch size does not
// divide the pass.
type ImageSet struct {
	name     string
	classes  []string
	size     int // height and width
	channels int
	examples [2]int // by split
	pixels   pixelReader
	fresh    bool // epochs differ: image i of epoch e is e*examples+i
	scale    PixelScale
	values   [3][256]float32 // the value of each byte of a pixel, by channel, after scaling
	change   augmentation
	order    philox.Key
}

// pixelReader supplies images, always the same for a split and i. Any number of
// goroutines may read at once.
type pixelReader interface {
	// read writes image i, (size, size, channels) bytes, and returns its class.
	read(split Split, i int, pixels []byte) int32
}

// newImageSet returns a set without pixelReader and normalisation.
func newImageSet(name string, classes []string, size, channels int, c Config) *ImageSet {
	return &ImageSet{
		name: name, classes: classes, size: size, channels: channels,
		change: newAugmentation(c), order: philox.KeyOf(c.Seed, "datasets/images/order"),
	}
}

// PixelScale describes the value of a pixel's byte p, channel by channel:
// (p/255 - Mean) / Deviation.
type PixelScale struct {
	Mean      []float64 `json:"mean"`
	Deviation []float64 `json:"deviation"` // above 0
}

// Equal reports whether two scales are the same to the bit.
func (p PixelScale) Equal(q PixelScale) bool {
	return slices.Equal(p.Mean, q.Mean) && slices.Equal(p.Deviation, q.Deviation)
}

// Scale returns the scale of the set's pixels.
func (s *ImageSet) Scale() PixelScale { return s.scale }

// Rescale changes the scale of the set's pixels, for example to that of the
// images on which a network was trained. It must not run concurrently with
// Batch.
func (s *ImageSet) Rescale(to PixelScale) error {
	if len(to.Mean) != s.channels || len(to.Deviation) != s.channels {
		return fmt.Errorf("%d means and %d deviations of pixels, want %d, one for each channel", len(to.Mean), len(to.Deviation), s.channels)
	}
	for c := range s.channels {
		// Keep the values within the range of float32.
		if mean, deviation := to.Mean[c], to.Deviation[c]; !(math.Abs(mean) <= 1e6 && deviation >= 1e-6 && deviation <= 1e6) {
			return fmt.Errorf("mean %v and deviation %v of pixels, want up to 1e6, and deviations from 1e-6", mean, deviation)
		}
	}
	s.normalize(to)
	return nil
}

// normalize sets the values of a pixel's bytes in each channel.
func (s *ImageSet) normalize(to PixelScale) {
	s.scale = to
	for c := range s.channels {
		for p := range 256 {
			s.values[c][p] = float32((float64(p)/255 - to.Mean[c]) / to.Deviation[c])
		}
	}
}

func (s *ImageSet) Name() string { return s.name }
func (s *ImageSet) Vocab() int   { return len(s.classes) }

// Classes returns the names of the classes 0..Vocab-1.
func (s *ImageSet) Classes() []string { return s.classes }

// Shape returns the shape of an image: (H, W, C).
func (s *ImageSet) Shape() []int { return []int{s.size, s.size, s.channels} }

// Examples returns the number of images in a pass over a split.
func (s *ImageSet) Examples(split Split) int { return s.examples[split] }

// Batches returns the number of batches of an epoch, or of the held-out pass.
func (s *ImageSet) Batches(split Split, examples int) int {
	return ceilDiv(s.examples[split], examples)
}

// elements returns the number of bytes of an image.
func (s *ImageSet) elements() int { return s.size * s.size * s.channels }

// Batch returns a batch of images.
func (s *ImageSet) Batch(split Split, index, examples int) (nn.Batch, error) {
	if err := checkBatch(split, index, examples, s.elements()); err != nil {
		return nn.Batch{}, fmt.Errorf("%s: %w", s.name, err)
	}
	batches := s.Batches(split, examples)
	epoch, first := index/batches, index%batches*examples
	if split == HeldOut && epoch > 0 {
		return nn.Batch{}, fmt.Errorf("%s: held-out batch %d of %d", s.name, index, batches)
	}
	n := min(examples, s.examples[split]-first)
	values, classes := make([]float32, n*s.elements()), make([]int32, n)
	pixels, spare := make([]byte, s.elements()), make([]float32, s.elements())
	order := newShuffle(s.examples[Train], s.order, uint64(epoch))
	for i := range n {
		image := values[i*s.elements() : (i+1)*s.elements()]
		if split == HeldOut {
			classes[i] = s.pixels.read(split, first+i, pixels)
			s.decode(image, pixels)
			continue
		}
		example := order.at(first + i)
		among := epoch*s.examples[Train] + example // those of all epochs
		if s.fresh {
			example = among
		}
		classes[i] = s.pixels.read(split, example, pixels)
		s.decode(image, pixels)
		s.change.of(uint64(among), s.size).apply(image, spare, s.size, s.channels)
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{n, s.size, s.size, s.channels}, F32: values}},
		Targets: []nn.Tensor{{Shape: []int{n}, I32: classes}},
		Count:   n,
	}, nil
}

// decode converts bytes to values; the channel changes fastest in both.
func (s *ImageSet) decode(values []float32, pixels []byte) {
	values = values[:len(pixels)]
	for c := range s.channels {
		table := &s.values[c]
		for i := c; i < len(pixels); i += s.channels {
			values[i] = table[pixels[i]]
		}
	}
}

// Yardsticks returns guessing.
func (s *ImageSet) Yardsticks() ([]Yardstick, error) {
	chance := NewYardstick("chance", exactmath.Log(float64(s.Vocab())))
	chance.Accuracy = 1 / float64(s.Vocab())
	return []Yardstick{chance}, nil
}

// storedImages are images in memory, as bytes; they are decoded batch by batch.
type storedImages [2]storedSplit

type storedSplit struct {
	pixels  []byte // (N, size, size, channels)
	classes []int32
}

func (s *storedImages) read(split Split, i int, pixels []byte) int32 {
	from := &s[split]
	copy(pixels, from.pixels[i*len(pixels):])
	return from.classes[i]
}

// newStoredSet returns the set of images that were read from files. Pixels are
// normalised by the mean and deviation of the training images' channels,
// computed in exact integers.
func newStoredSet(name string, classes []string, size, channels int, images *storedImages, c Config) *ImageSet {
	s := newImageSet(name, classes, size, channels, c)
	s.pixels = images
	for split := range images {
		s.examples[split] = len(images[split].classes)
	}
	var counts [3][256]int
	for i, p := range images[Train].pixels {
		counts[i%channels][p]++
	}
	var scale PixelScale
	for c := range channels {
		mean, deviation := moments(&counts[c])
		scale.Mean, scale.Deviation = append(scale.Mean, mean), append(scale.Deviation, deviation)
	}
	s.normalize(scale)
	return s
}

// moments returns the mean and standard deviation of bytes as fractions of 255.
// If all bytes are equal, the deviation is 1.
func moments(counts *[256]int) (mean, deviation float64) {
	n, sum, squares, values := 0, 0, 0, 0
	for p, count := range counts {
		n += count
		sum += count * p
		squares += count * p * p
		if count > 0 {
			values++
		}
	}
	mean = float64(sum) / float64(n)
	if values == 1 {
		return mean / 255, 1
	}
	return mean / 255, math.Sqrt(float64(squares)/float64(n)-float64(mean*mean)) / 255
}
