package datasets

import (
	"encoding/binary"
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/philox"
)

// figures draws the images of the procedural task. A class is a shape filled
// with a texture. Everything else is nuisance, drawn for every image: the
// position, size and rotation of the figure, the colours of figure and ground
// and which of them is lighter, a gradient of brightness, the texture's period,
// phase, contrast and rotation, and noise.
//
// A pair of colours is as likely as the reverse pair. So the mean of a pixel is
// the same in every class, and nothing linear in the pixels distinguishes
// classes. Rotations are small enough that stripes stay different from bands,
// and triangles stand on a side.
type figures struct {
	size    int // height and width
	first   int // the number of the figure that is class 0
	classes int
	noise   float32
	keys    [2]philox.Key // by split
}

// reach is the distance from the origin within which a figure is visible: its
// own reach, and the half pixel of a soft edge at the smallest radius, 0.34*16
// pixels.
const reach = 1.15 + 0.5/(0.34*minFigure)

// shape is a figure, given by the signed distance of (u, v) from its outline,
// negative inside. Shapes have about the same area and reach at most 1.15 from
// the origin.
type shape struct {
	name     string
	distance func(u, v float32) float32
}

var shapes = []shape{
	{"disc", func(u, v float32) float32 { return hypot(u, v) - 0.85 }},
	{"bar", func(u, v float32) float32 { return max(abs(u)-1.05, abs(v)-0.42) }},
	{"cross", func(u, v float32) float32 {
		u, v = abs(u), abs(v)
		return max(max(u, v)-1, min(u, v)-0.36)
	}},
	{"triangle", func(u, v float32) float32 {
		const half, height = 0.5, 0.8660254 // of the unit vectors to the sides
		return max(v, float32(height*abs(u))-float32(half*v)) - 0.57
	}},
	{"ring", func(u, v float32) float32 { return abs(hypot(u, v)-0.75) - 0.27 }},
}

// texture is a pattern with period 1 and values between -1 and 1.
type texture struct {
	name    string
	pattern func(u, v float32) float32
}

var textures = []texture{
	{"striped", func(u, _ float32) float32 { return clamp(2 * triangleWave(u)) }},
	{"plain", func(_, _ float32) float32 { return 0 }},
	{"banded", func(_, v float32) float32 { return clamp(2 * triangleWave(v)) }},
	{"chequered", func(u, v float32) float32 {
		return clamp(4 * triangleWave(float32(0.85*u)) * triangleWave(float32(0.85*v)))
	}},
}

// maxFigures is the maximum number of classes.
var maxFigures = len(shapes) * len(textures)

// names returns the names of the classes.
func (f *figures) names() []string {
	var names []string
	for c := range f.classes {
		s, t := figureOf(f.first + c)
		names = append(names, t.name+" "+s.name)
	}
	return names
}

// figureOf returns the shape and the texture of figure n. Shapes change fastest.
// The first fifteen figures rotate through the first three textures, so that
// neither shape nor texture alone determines the class; the fourth texture,
// which is harder to learn, is for the last five.
func figureOf(n int) (shape, texture) {
	shape, round := n%len(shapes), n/len(shapes)
	if easy := len(textures) - 1; round < easy {
		return shapes[shape], textures[(shape+round)%easy]
	}
	return shapes[shape], textures[round]
}

// read draws image i, (size, size, 3) in [0, 255]. Its class is i modulo the
// number of classes, so that all are equally frequent.
func (f *figures) read(split Split, i int, pixels []byte) int32 {
	random := philox.NewStream(f.keys[split], uint64(i))
	between := func(a, b float32) float32 { return a + float32((b-a)*float32(random.Uint32()>>8)*0x1p-24) }
	class := i % f.classes
	shape, texture := figureOf(f.first + class)

	size := float32(f.size)
	radius := size * between(0.34, 0.46)
	inverse := 1 / radius
	x0, y0 := float32(size*between(0.42, 0.58)), float32(size*between(0.42, 0.58))
	cos, sin := direction(between(-0.08, 0.08))

	frequency := 1 / (size * between(1./5, 1./3.8))
	textureCos, textureSin := direction(between(-0.06, 0.06))
	phaseU, phaseV := between(0, 1), between(0, 1)

	var middle, figure, pattern [3]float32
	axis, contrast := unit(random), between(0.3, 0.45)
	other, depth := unit(random), between(0.25, 0.4)
	for c := range 3 {
		middle[c] = between(0.4, 0.6)
		figure[c] = contrast * axis[c]
		pattern[c] = depth * other[c]
	}
	slopeX, slopeY := between(-0.1, 0.1)/size, between(-0.1, 0.1)/size

	drawNoise(f.keys[split], uint64(i), pixels)
	at := 0
	for y := range f.size {
		dy := float32(y) + 0.5 - y0
		for x := range f.size {
			dx := float32(x) + 0.5 - x0
			u, v := turned(dx, dy, cos, sin)
			u, v = u*inverse, v*inverse
			// The share of the pixel that the figure covers, if its edge is
			// straight there.
			cover, fill := float32(0), float32(0)
			if float32(u*u)+float32(v*v) < reach*reach {
				cover = 0.5 - float32(radius*shape.distance(u, v))
			}
			if cover <= 0 {
				cover = 0
			} else {
				if cover > 1 { // not min, which is slow for floats
					cover = 1
				}
				u, v := turned(dx, dy, textureCos, textureSin)
				fill = cover * texture.pattern(float32(u*frequency)+phaseU, float32(v*frequency)+phaseV)
			}
			side := float32(2*cover) - 1 // -1 on the ground, 1 on the figure
			light := float32(slopeX*dx) + float32(slopeY*dy)
			pixel := pixels[at : at+3 : at+3]
			pixel[0] = brightness(middle[0] + light + float32(side*figure[0]) + float32(fill*pattern[0]) + float32(f.noise*normals[pixel[0]]))
			pixel[1] = brightness(middle[1] + light + float32(side*figure[1]) + float32(fill*pattern[1]) + float32(f.noise*normals[pixel[1]]))
			pixel[2] = brightness(middle[2] + light + float32(side*figure[2]) + float32(fill*pattern[2]) + float32(f.noise*normals[pixel[2]]))
			at += 3
		}
	}
	return int32(class)
}

// turned returns (x, y) in axes that are turned by the angle of a cosine and sine.
func turned(x, y, cos, sin float32) (u, v float32) {
	return float32(x*cos) + float32(y*sin), float32(y*cos) - float32(x*sin)
}

// brightness is the byte nearest to a value from 0 to 1.
func brightness(value float32) byte { return byte(min(max(int32(float32(255*value)+0.5), 0), 255)) }

// drawNoise writes random bytes, which stand for coarse normal numbers: see normals. The
// counters of Philox have 1 where those of a Stream's first 2^32 blocks have 0.
func drawNoise(key philox.Key, image uint64, bytes []byte) {
	for b := uint32(0); len(bytes) > 0; b++ {
		words := philox.Block(key, [4]uint32{b, 1, uint32(image), uint32(image >> 32)})
		var block [16]byte
		binary.BigEndian.PutUint64(block[:], uint64(words[3])<<32|uint64(words[2]))
		binary.BigEndian.PutUint64(block[8:], uint64(words[1])<<32|uint64(words[0]))
		bytes = bytes[copy(bytes, block[:]):]
	}
}

// normals are the middles of 256 equally probable parts of the standard normal
// distribution.
var normals = func() (table [256]float32) {
	for i := range table {
		p := float64((float64(i) + 0.5) / 256)
		table[i] = float32(math.Sqrt2 * exactmath.Erfinv(2*p-1))
	}
	return table
}()

// direction returns the unit vector at a fraction of a full turn.
func direction(turn float32) (cos, sin float32) {
	angle := 2 * math.Pi * float64(turn)
	return float32(exactmath.Cos(angle)), float32(exactmath.Sin(angle))
}

// unit returns a random direction in the space of colours.
func unit(random *philox.Stream) (d [3]float32) {
	var v [3]float64
	norm := 0.0
	for norm == 0 {
		for c := range v {
			v[c] = random.Normal()
		}
		norm = math.Sqrt(float64(v[0]*v[0]) + float64(v[1]*v[1]) + float64(v[2]*v[2]))
	}
	for c := range d {
		d[c] = float32(v[c] / norm)
	}
	return d
}

// triangleWave is 1 at 0, falls to -1 and rises back to 1 in a period of 1.
func triangleWave(x float32) float32 {
	return float32(4*abs(x-float32(math.Floor(float64(x)))-0.5)) - 1
}

func hypot(u, v float32) float32 { return float32(math.Sqrt(float64(float32(u*u) + float32(v*v)))) }
func abs(x float32) float32      { return float32(math.Abs(float64(x))) }
func clamp(x float32) float32    { return min(max(x, -1), 1) }
