package datasets

import (
	"cmp"
	"fmt"
	"math"

	"gpipebench/nn/philox"
)

// NewSyntheticDigits returns the ten digits as grey images, 8 pixels a side unless Images.Size
// says otherwise, drawn on demand as those of NewSyntheticImages are: each a pure function of
// (seed, split, number), all classes equally frequent. Position, size, slant, rotation and
// contrast of a digit are drawn for every image, and noise. Of SyntheticImages it takes the numbers of
// images, Fresh and Noise.
func NewSyntheticDigits(c Config) (*ImageSet, error) {
	c.SyntheticImages.Classes, c.SyntheticImages.First = len(glyphs), 0
	size := cmp.Or(c.Images.Size, minImage)
	if err := c.Images.validate(size); err != nil {
		return nil, err
	}
	if err := c.SyntheticImages.validate(); err != nil {
		return nil, err
	}
	i := c.withDefaults().SyntheticImages
	d := &drawnDigits{size: size, noise: float32(i.Noise)}
	for _, split := range []Split{Train, HeldOut} {
		d.keys[split] = philox.KeyOf(c.Seed, fmt.Sprintf("datasets/synthetic-digits/%v", split))
	}
	s := newImageSet("synthetic-digits", numbers(len(glyphs)), size, 1, c)
	s.pixels, s.fresh = d, i.Fresh
	s.examples = [2]int{Train: i.Train, HeldOut: i.HeldOut}
	s.normalize(PixelScale{Mean: []float64{0.19}, Deviation: []float64{0.22}})
	return s, nil
}

// drawnDigits draws the images of NewSyntheticDigits.
type drawnDigits struct {
	size  int // height and width
	noise float32
	keys  [2]philox.Key // by split
}

// glyphs are the digits' shapes: seven rows of five dots, the first of a row its highest bit.
var glyphs = [10][7]byte{
	{0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110},
	{0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110},
	{0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111},
	{0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110},
	{0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010},
	{0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110},
	{0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110},
	{0b11111, 0b00001, 0b00010, 0b00100, 0b00100, 0b01000, 0b01000},
	{0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110},
	{0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100},
}

// read draws image i, (size, size, 1) in [0, 255]. Its class is i modulo ten.
func (d *drawnDigits) read(split Split, i int, pixels []byte) int32 {
	random := philox.NewStream(d.keys[split], uint64(i))
	between := func(a, b float32) float32 { return a + float32((b-a)*float32(random.Uint32()>>8)*0x1p-24) }
	class := i % len(glyphs)
	size := float32(d.size)
	x0, y0 := float32(size*between(0.42, 0.58)), float32(size*between(0.45, 0.55))
	across, down := 5/(size*between(0.5, 0.75)), 7/(size*between(0.75, 1)) // dots of a pixel
	cos, sin := direction(between(-0.04, 0.04))
	slant, ink := between(-0.25, 0.25), between(0.5, 0.95)
	drawNoise(d.keys[split], uint64(i), pixels)
	for at := range pixels {
		u, v := turned(float32(at%d.size)+0.5-x0, float32(at/d.size)+0.5-y0, cos, sin)
		u += float32(slant * v)
		dot := dotsAt(&glyphs[class], float32(u*across)+2, float32(v*down)+3)
		pixels[at] = brightness(0.03 + float32(ink*dot) + float32(d.noise*normals[pixels[at]]))
	}
	return int32(class)
}

// dotsAt is the darkness of a glyph, 0 to 1, at a place between its dots, of which (0, 0) is
// the first of the first row: bilinear, and 0 beyond them.
func dotsAt(g *[7]byte, x, y float32) float32 {
	left, top := math.Floor(float64(x)), math.Floor(float64(y))
	fx, fy := x-float32(left), y-float32(top)
	dot := func(column, row int) float32 {
		if column < 0 || column > 4 || row < 0 || row > 6 {
			return 0
		}
		return float32(g[row] >> (4 - column) & 1)
	}
	c, r := int(left), int(top)
	upper := float32((1-fx)*dot(c, r)) + float32(fx*dot(c+1, r))
	lower := float32((1-fx)*dot(c, r+1)) + float32(fx*dot(c+1, r+1))
	return float32((1-fy)*upper) + float32(fy*lower)
}
