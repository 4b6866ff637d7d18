package datasets

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// numberedImages is a set of n training images and held held-out ones, of size
// 8, whose pixels encode their number; the class is the number modulo 3.
func numberedImages(n, held, channels int, c Config) *ImageSet {
	var images storedImages
	for split, n := range []int{n, held} {
		for i := range n {
			for p := range 64 * channels {
				images[split].pixels = append(images[split].pixels, byte(i>>(p%2*8)))
			}
			images[split].classes = append(images[split].classes, int32(i%3))
		}
	}
	return newStoredSet("images:test", numbers(3), 8, channels, &images, c)
}

// numberOf returns which image of numberedImages an example is.
func numberOf(s *ImageSet, b nn.Batch, i int) int {
	values := b.Slice(i, i+1).Inputs[0].F32
	at := func(c int) int { return slices.Index(s.values[c%s.channels][:], values[c]) }
	return at(0) + at(1)<<8
}

// Every epoch has each training image once, with its class, in another order; the held-out pass
// has its images in their order. (Shapes and counts of batches are the contract's.)
func TestEpochVisitsEveryImageOnce(t *testing.T) {
	for _, channels := range []int{1, 3} {
		for _, examples := range []int{7, 300} {
			s := numberedImages(300, 20, channels, Config{Seed: 3})
			visited := func(split Split, from, to int) (order []int) {
				for i := from; i < to; i++ {
					b := mustBatch(t, s, split, i, examples)
					for e := range b.Examples() {
						n := numberOf(s, b, e)
						if order = append(order, n); b.Targets[0].I32[e] != int32(n%3) {
							t.Fatalf("image %d has class %d", n, b.Targets[0].I32[e])
						}
					}
				}
				return order
			}
			var before []int
			batches := s.Batches(Train, examples)
			for epoch := range 3 {
				order := visited(Train, epoch*batches, (epoch+1)*batches)
				if slices.Equal(order, before) {
					t.Error("epochs have the same order")
				}
				before = order
				if !slices.Equal(slices.Sorted(slices.Values(order)), upTo(300)) {
					t.Fatalf("epoch %d visits %v", epoch, order)
				}
			}
			testkit.EqualAll(t, visited(HeldOut, 0, s.Batches(HeldOut, examples)), upTo(20), "held-out images")
		}
	}
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// augmented switches on all augmentations.
var augmented = ImageConfig{Size: 16, Flip: true, Crop: 2, Cutout: 4}

func imageSets(t *testing.T, c Config) map[string]*ImageSet {
	c.SyntheticImages.Train, c.SyntheticImages.HeldOut = 50, 30
	synthetic := testkit.Must(NewSyntheticImages(c))(t)
	c.SyntheticImages.Fresh = true
	fresh := testkit.Must(NewSyntheticImages(c))(t)
	return map[string]*ImageSet{"stored": numberedImages(50, 30, 3, c), "synthetic": synthetic, "fresh": fresh}
}

// The augmentation of an image differs from epoch to epoch.
func TestAugmentationDependsOnTheEpoch(t *testing.T) {
	var images storedImages
	for split := range images {
		images[split].classes = []int32{0}
		for p := range 64 {
			images[split].pixels = append(images[split].pixels, byte(3*p))
		}
	}
	s := newStoredSet("images:test", numbers(2), 8, 1, &images, Config{Images: ImageConfig{Crop: 4}})
	seen := map[string]bool{}
	for epoch := range 20 {
		seen[fmt.Sprint(mustBatch(t, s, Train, epoch, 1).Inputs[0].F32)] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d different crops in 20 epochs", len(seen))
	}
}

// Only training images are augmented.
func TestHeldOutIsNotAugmented(t *testing.T) {
	plain := imageSets(t, Config{Images: ImageConfig{Size: 16}})
	for name, s := range imageSets(t, Config{Images: augmented}) {
		testkit.EqualDeep(t, mustBatch(t, s, HeldOut, 0, 30), mustBatch(t, plain[name], HeldOut, 0, 30), "%s: held-out images are augmented", name)
		a, b := mustBatch(t, s, Train, 0, 30), mustBatch(t, plain[name], Train, 0, 30)
		if reflect.DeepEqual(a.Inputs, b.Inputs) || !reflect.DeepEqual(a.Targets, b.Targets) {
			t.Errorf("%s: training images are not augmented, or are others", name)
		}
	}
}

// The mean is 0 and the standard deviation 1, in every channel: up to rounding
// over a stored training part, approximately for procedural images.
func TestImagesAreNormalized(t *testing.T) {
	for name, s := range imageSets(t, Config{Images: ImageConfig{Size: 16}}) {
		within := 1e-5
		if name != "stored" {
			within = 0.1
		}
		values := mustBatch(t, s, Train, 0, 50).Inputs[0].F32
		for c := range 3 {
			n, sum, squares := 0.0, 0.0, 0.0
			for i := c; i < len(values); i += 3 {
				v := float64(values[i])
				n, sum, squares = n+1, sum+v, squares+v*v
			}
			if mean, variance := sum/n, squares/n; !(math.Abs(mean) <= within && math.Abs(math.Sqrt(variance)-1) <= within) { // also rejects NaN
				t.Errorf("%s: channel %d has mean %g and deviation %g", name, c, mean, math.Sqrt(variance))
			}
		}
	}
}

// Images of one colour are 0 everywhere, without a division by 0.
func TestImagesOfOneColour(t *testing.T) {
	var images storedImages
	for split := range images {
		images[split].pixels, images[split].classes = slices.Repeat([]byte{7, 8, 9}, 2*64), []int32{0, 1}
	}
	s := newStoredSet("images:test", numbers(2), 8, 3, &images, Config{})
	for i, v := range mustBatch(t, s, Train, 0, 2).Inputs[0].F32 {
		if !(math.Abs(float64(v)) <= 1e-7) { // also rejects NaN
			t.Fatalf("value %d is %v", i, v)
		}
	}
}
