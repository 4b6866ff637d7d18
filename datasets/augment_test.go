package datasets

import (
	"testing"

	"gpipebench/internal/testkit"
)

func TestApplyChange(t *testing.T) {
	original := []float32{
		1, 2, 3, 4,
		5, 6, 7, 8,
		9, 10, 11, 12,
		13, 14, 15, 16,
	}
	for name, c := range map[string]struct {
		change
		want []float32
	}{
		"nothing": {change{x: 1, y: 1}, original},
		"flip": {change{mirrored: true}, []float32{
			4, 3, 2, 1,
			8, 7, 6, 5,
			12, 11, 10, 9,
			16, 15, 14, 13,
		}},
		"crop to the lower right": {change{dx: 1, dy: 2}, []float32{
			10, 11, 12, 0,
			14, 15, 16, 0,
			0, 0, 0, 0,
			0, 0, 0, 0,
		}},
		"crop to the upper left, then flip": {change{dx: -2, dy: -1, mirrored: true}, []float32{
			0, 0, 0, 0,
			2, 1, 0, 0,
			6, 5, 0, 0,
			10, 9, 0, 0,
		}},
		"cutout inside, after a flip": {change{mirrored: true, x: 0, y: 1, patch: 2}, []float32{
			4, 3, 2, 1,
			0, 0, 6, 5,
			0, 0, 10, 9,
			16, 15, 14, 13,
		}},
		"cutout over the corner": {change{x: 3, y: -1, patch: 3}, []float32{
			1, 2, 3, 0,
			5, 6, 7, 0,
			9, 10, 11, 12,
			13, 14, 15, 16,
		}},
	} {
		for _, channels := range []int{1, 3} {
			var image, want []float32
			for i := range original {
				for ch := range channels {
					image = append(image, original[i]*float32(ch+1))
					want = append(want, c.want[i]*float32(ch+1))
				}
			}
			c.change.apply(image, make([]float32, len(image)), 4, channels)
			testkit.EqualAll(t, image, want, "%s, %d channels", name, channels)
		}
	}
}

// Every possible change occurs, with equal frequency.
func TestChangesAreUniform(t *testing.T) {
	const n, size = 20000, 8
	a := newAugmentation(Config{Images: ImageConfig{Flip: true, Crop: 2, Cutout: 4}})
	mirrored := 0
	corner, centre := map[[2]int]int{}, map[[2]int]int{}
	for i := range n {
		c := a.of(uint64(i), size)
		if c.mirrored {
			mirrored++
		}
		corner[[2]int{c.dx, c.dy}]++
		centre[[2]int{c.x + 2, c.y + 2}]++
	}
	if mirrored < n/2-400 || mirrored > n/2+400 {
		t.Errorf("%d of %d are mirrored", mirrored, n)
	}
	for name, places := range map[string]struct {
		counts     map[[2]int]int
		from, upto int
	}{"crop": {corner, -2, 2}, "cutout": {centre, 0, size - 1}} {
		side := places.upto - places.from + 1
		mean := n / (side * side)
		for place, count := range places.counts {
			if x, y := place[0], place[1]; x < places.from || x > places.upto || y < places.from || y > places.upto {
				t.Errorf("%s: at %v", name, place)
			}
			if count < mean*7/10 || count > mean*13/10 {
				t.Errorf("%s: %d times at %v, want about %d", name, count, place, mean)
			}
		}
		testkit.Equal(t, len(places.counts), side*side, "%s: places", name)
	}
}

// One kind of change does not affect the others.
func TestChangesAreIndependent(t *testing.T) {
	all := newAugmentation(Config{Images: ImageConfig{Flip: true, Crop: 2, Cutout: 4}})
	for i := range uint64(100) {
		want := all.of(i, 8)
		crop, flip := all, all
		crop.flip = false
		flip.cutout = 0
		if got := crop.of(i, 8); got.mirrored || got.dx != want.dx || got.dy != want.dy || got.x != want.x || got.y != want.y {
			t.Errorf("without a flip %+v, with it %+v", got, want)
		}
		if got := flip.of(i, 8); got.mirrored != want.mirrored || got.dx != want.dx || got.dy != want.dy || got.patch != 0 {
			t.Errorf("without a cutout %+v, with it %+v", got, want)
		}
	}
}
