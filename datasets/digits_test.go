package datasets

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"gpipebench/internal/testkit"
)

// Digits stay as they are drawn, on every processor, at the size for which they are made and a
// larger one; another seed draws others.
func TestDigitsStay(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		size int
		want string
	}{
		{1, 0, "b8f2ec36ac3100c4"}, {2, 0, "f1094e181d637827"}, {1, 20, "8404fc05bff00aac"},
	} {
		s := testkit.Must(NewSyntheticDigits(Config{Seed: c.seed, Images: ImageConfig{Size: c.size}}))(t)
		pixels, h := make([]byte, s.elements()), sha256.New()
		for i := range 200 {
			testkit.Equal(t, s.pixels.read(Train, i, pixels), int32(i%10), "image %d is of class", i)
			h.Write(pixels)
		}
		testkit.Equal(t, fmt.Sprintf("%x", h.Sum(nil)[:8]), c.want, "seed %d, size %d", c.seed, c.size)
	}
}

// Pixels have about mean 0 and deviation 1, and a glyph is what it says: an 8 has more ink than
// a 1, and a 4 is not a mirrored one.
func TestDigitsAreDrawn(t *testing.T) {
	s := testkit.Must(NewSyntheticDigits(Config{Seed: 3}))(t)
	b := testkit.Must(s.Batch(Train, 0, 2000))(t)
	sum, squares, ink, count := 0., 0., [10]float64{}, [10]float64{}
	values := b.Inputs[0].F32
	for i, class := range b.Targets[0].I32 {
		for _, v := range values[64*i : 64*(i+1)] {
			sum, squares = sum+float64(v), squares+float64(v)*float64(v)
			ink[class] += float64(v)
		}
		count[class]++
	}
	n := float64(len(values))
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.1 || math.Abs(deviation-1) > 0.1 {
		t.Errorf("mean %.3f, deviation %.3f", mean, deviation)
	}
	if ink[8]/count[8] <= ink[1]/count[1] {
		t.Errorf("ink of an 8: %v, of a 1: %v", ink[8]/count[8], ink[1]/count[1])
	}
	four := &glyphs[4]
	if dotsAt(four, 3, 0) != 1 || dotsAt(four, 1, 0) != 0 || dotsAt(four, 2.5, 4) != 1 || dotsAt(four, -1, 4) != 0 || dotsAt(four, 3.5, 0) != 0.5 {
		t.Error("a 4 is not drawn as its dots say")
	}
}
