package datasets

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

// Images are the same in every epoch, or new in each.
func TestFreshImages(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		c := Config{Images: ImageConfig{Size: 16}, SyntheticImages: SyntheticImagesConfig{Train: 40, Fresh: fresh}}
		s := testkit.Must(NewSyntheticImages(c))(t)
		seen := map[float32]int{} // sums, which are distinct in practice
		for epoch := range 3 {
			b := mustBatch(t, s, Train, epoch, 40)
			for i := range 40 {
				sum := float32(0)
				for _, v := range b.Slice(i, i+1).Inputs[0].F32 {
					sum += v
				}
				seen[sum]++
			}
		}
		testkit.Equal(t, len(seen), map[bool]int{false: 40, true: 120}[fresh], "fresh %v: different images in 3 epochs of 40", fresh)
	}
}

// A task that begins with a later figure has the later classes of the whole task, and the
// same images of them.
func TestFirstFigure(t *testing.T) {
	whole := &figures{size: 16, classes: 20, noise: 0.05}
	later := &figures{size: 16, first: 10, classes: 10, noise: 0.05}
	if names := later.names(); !slices.Equal(names, whole.names()[10:]) {
		t.Errorf("classes %v", names)
	}
	a, b := make([]byte, 16*16*3), make([]byte, 16*16*3)
	for i := 10; i < 20; i++ {
		if x, y := whole.read(Train, i, a), later.read(Train, i, b); x != y+10 || !slices.Equal(a, b) {
			t.Errorf("image %d: class %d of the whole task, and %d", i, x, y)
		}
	}
}

// Records of trainings rest on these images: they, their classes and the classes' names stay the same to the bit. The sizes are
// such that an image's noise ends within a block, and that it does not.
func TestFiguresStay(t *testing.T) {
	sum := sha256.New()
	for _, size := range []int{16, 17, 20, 32} {
		for _, noise := range []float32{0.03, 0.3} {
			f := &figures{size: size, classes: 20, noise: noise, keys: [2]philox.Key{{1, 2}, {3, 4}}}
			pixels := make([]byte, size*size*3)
			fmt.Fprintln(sum, f.names())
			for i := range 200 {
				fmt.Fprintln(sum, f.read(Split(i%2), i, pixels))
				sum.Write(pixels)
			}
		}
	}
	testkit.Equal(t, fmt.Sprintf("%x", sum.Sum(nil)[:8]), "77b3f1ecccbd1fd5", "digest")
}
