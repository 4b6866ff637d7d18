package datasets

import "gpipebench/nn/philox"

// augmentation describes the random changes of training images, see
// ImageConfig.
type augmentation struct {
	flip         bool
	crop, cutout int
	key          philox.Key
}

func newAugmentation(c Config) augmentation {
	return augmentation{
		flip: c.Images.Flip, crop: c.Images.Crop, cutout: c.Images.Cutout,
		key: philox.KeyOf(c.Seed, "datasets/images/augmentation"),
	}
}

// change is the augmentation of one image.
type change struct {
	dx, dy   int // the crop's first pixel in the original, may be outside
	mirrored bool
	x, y     int // the first pixel of the patch to cut out, may be outside
	patch    int // its side
}

// of returns the change of a training example, given its number counted over
// all epochs, for images of a size.
func (a augmentation) of(example uint64, size int) change {
	random := philox.NewStream(a.key, example)
	// Everything is drawn, whether it is used or not, so that switching on
	// flips does not change the crops.
	mirrored := random.Uint32()>>31 == 1
	dx, dy := random.Intn(2*a.crop+1)-a.crop, random.Intn(2*a.crop+1)-a.crop
	x, y := random.Intn(size)-a.cutout/2, random.Intn(size)-a.cutout/2
	return change{dx: dx, dy: dy, mirrored: a.flip && mirrored, x: x, y: y, patch: a.cutout}
}

// apply changes an image in place; next is working memory of the same size.
// Pixels around the original, and the patch, are set to 0: the mean.
func (g change) apply(image, next []float32, size, channels int) {
	if g == (change{x: g.x, y: g.y}) {
		return // no change
	}
	copy(next, image)
	for y := range size {
		for x := range size {
			pixel := image[(y*size+x)*channels:][:channels]
			fromX, fromY := x, y+g.dy
			if g.mirrored {
				fromX = size - 1 - x
			}
			fromX += g.dx
			if within(fromX, 0, size) && within(fromY, 0, size) && !(within(x, g.x, g.patch) && within(y, g.y, g.patch)) {
				copy(pixel, next[(fromY*size+fromX)*channels:])
			} else {
				clear(pixel)
			}
		}
	}
}

// within reports whether x is one of the n numbers from first on.
func within(x, first, n int) bool { return first <= x && x < first+n }
