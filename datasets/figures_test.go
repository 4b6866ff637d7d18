package datasets

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/nn/philox"
)

// Shapes have the size that their comment gives, and textures are in range and
// symmetric around 0, so that size and mean colour do not identify them.
func TestShapesAndTextures(t *testing.T) {
	const steps = 400
	for _, s := range shapes {
		area, far := 0.0, 0.0
		for y := range steps {
			for x := range steps {
				u, v := 4*(float32(x)+0.5)/steps-2, 4*(float32(y)+0.5)/steps-2
				if s.distance(u, v) <= 0 {
					area += 16. / (steps * steps)
					far = max(far, math.Hypot(float64(u), float64(v)))
				}
			}
		}
		if area < 1.65 || area > 2.6 || far > 1.15 {
			t.Errorf("%s: area %.3f, want 1.65 to 2.6; reach %.3f, want up to 1.15", s.name, area, far)
		}
	}
	for _, x := range textures {
		sum := 0.0
		for i := range steps {
			for j := range steps {
				p := x.pattern(10*float32(i)/(0.7*steps), 10*float32(j)/(0.7*steps))
				if p < -1 || p > 1 {
					t.Fatalf("%s is %v", x.name, p)
				}
				sum += float64(p) / (steps * steps)
			}
		}
		if math.Abs(sum) > 0.5 {
			t.Errorf("%s: mean %.3f", x.name, sum)
		}
	}
}

// Every class is equally frequent and has its own name, and the mean of no
// pixel distinguishes classes.
func TestFiguresClasses(t *testing.T) {
	const n = 8000
	f := &figures{size: 16, classes: 20, noise: 0.05}
	names := f.names()
	if len(names) != 20 || names[0] != "striped disc" || names[19] != "chequered ring" {
		t.Errorf("names %v", names)
	}
	if slices.Sort(names); len(slices.Compact(names)) != 20 {
		t.Errorf("names are not distinct: %v", names)
	}
	pixels := make([]byte, 16*16*3)
	counts, sums := make([]int, 20), make([][16 * 16 * 3]float64, 20)
	for i := range n {
		class := f.read(Train, i, pixels)
		counts[class]++
		for p, v := range pixels {
			sums[class][p] += float64(v)
		}
	}
	for class := range counts {
		if counts[class] != n/20 {
			t.Errorf("class %d has %d images, want %d", class, counts[class], n/20)
		}
		for p, sum := range sums[class] {
			// A value's deviation is about 50, that of the mean of 400 values
			// 2.5.
			if mean := sum / float64(counts[class]); math.Abs(mean-127.5) > 5*2.5 {
				t.Errorf("class %d: value %d has mean %.1f, want about 127.5", class, p, mean)
			}
		}
	}
}

// Images are the same in every epoch, or new in each.
func TestFreshImages(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		c := Config{Images: ImageConfig{Size: 16}, SyntheticImages: SyntheticImagesConfig{Train: 40, Fresh: fresh}}
		s, err := NewSyntheticImages(c)
		if err != nil {
			t.Fatal(err)
		}
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
		if want := map[bool]int{false: 40, true: 120}[fresh]; len(seen) != want {
			t.Errorf("fresh %v: %d different images in 3 epochs of 40, want %d", fresh, len(seen), want)
		}
	}
}

func TestNoiseIsNormal(t *testing.T) {
	sum, squares, within := 0.0, 0.0, 0
	const n = 1 << 16
	bytes := make([]byte, n)
	drawNoise(philox.Key{}, 5, bytes)
	for _, b := range bytes {
		v := float64(normals[b])
		sum, squares = sum+v, squares+v*v
		if math.Abs(v) < 1 {
			within++
		}
	}
	if math.Abs(sum/n) > 0.02 || math.Abs(squares/n-1) > 0.02 || math.Abs(float64(within)/n-0.683) > 0.01 {
		t.Errorf("mean %.4f, variance %.4f, %.4f within 1", sum/n, squares/n, float64(within)/n)
	}
}

// With more noise neighbours differ more.
func TestNoiseKnob(t *testing.T) {
	rough := func(noise float64) float64 {
		s, err := NewSyntheticImages(Config{Images: ImageConfig{Size: 16}, SyntheticImages: SyntheticImagesConfig{Noise: noise}})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		values := mustBatch(t, s, Train, 0, 50).Inputs[0].F32
		for i := 3; i < len(values); i++ {
			sum += math.Abs(float64(values[i] - values[i-3]))
		}
		return sum / float64(len(values))
	}
	if a, b := rough(0.02), rough(0.3); a > b/3 {
		t.Errorf("neighbours differ by %.3f with noise 0.02, by %.3f with 0.3", a, b)
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

// Records of trainings rest on these images: they stay the same to the bit. The sizes are
// such that an image's noise ends within a block, and that it does not.
func TestFiguresStay(t *testing.T) {
	sum := sha256.New()
	for _, size := range []int{16, 17, 20, 32} {
		for _, noise := range []float32{0.03, 0.3} {
			f := &figures{size: size, classes: 20, noise: noise, keys: [2]philox.Key{{1, 2}, {3, 4}}}
			pixels := make([]byte, size*size*3)
			for i := range 200 {
				f.read(Split(i%2), i, pixels)
				sum.Write(pixels)
			}
		}
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)[:8]); got != "cdd491870112f5d2" {
		t.Errorf("digest %s", got)
	}
}
