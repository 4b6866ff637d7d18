package baseline

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
)

// Images are images of side x side x channels values, the channel changing fastest, of which
// some are held out. Both functions fill values and return the class. They need not be safe for
// concurrent use.
type Images struct {
	Side, Channels, Classes int
	Train, HeldOut          int

	ReadTrain   func(step int, values []float32) (class int32) // each image once in every Train steps, in random order
	ReadHeldOut func(i int, values []float32) (class int32)
}

// Linear is multinomial logistic regression on an image's values: a
// baseline that shows how much of a task needs no network. An image of more
// than 32 pixels a side is reduced to at most that by averaging blocks.
//
// It is trained on images without augmentation, by stochastic gradient descent:
// one image per step, with a rate that is divided by the image's squared norm
// (as in normalised least mean squares) and falls to 0 at the end. It is
// neither tuned nor trained to convergence, and takes a second or two:
// linearPasses passes, or fewer if they would take more than linearWork
// multiplications or read more than linearValues values of pixels, and as many
// of the held-out images as take no more.
type Linear struct {
	images   Images
	block    int         // side of the blocks that are averaged
	side     int         // of the reduced image, in blocks
	weights  [][]float32 // (classes, side*side*channels + 1); the last is a bias
	values   []float32
	features []float32 // the last is 1
}

const (
	linearSide   = 32
	linearPasses = 5
	linearWork   = 1 << 30
	linearValues = 1 << 26
	linearRate   = 0.1
)

// TrainLinear returns a model that is a pure function of the images.
func TrainLinear(s Images) *Linear {
	m := &Linear{images: s, block: (s.Side + linearSide - 1) / linearSide, weights: make([][]float32, s.Classes), values: make([]float32, s.Side*s.Side*s.Channels)}
	m.side = s.Side / m.block
	m.features = make([]float32, m.side*m.side*s.Channels+1)
	m.features[len(m.features)-1] = 1
	for c := range m.weights {
		m.weights[c] = make([]float32, len(m.features))
	}
	steps, p := min(linearPasses*s.Train, m.affordable()), make([]float64, s.Classes)
	for step := range steps {
		class := s.ReadTrain(step, m.values)
		m.reduce()
		m.probabilities(p)
		p[class]-- // now the gradient of the loss with respect to the logits
		rate := linearRate * (1 - float64(step)/float64(steps)) / float64(dot(m.features, m.features))
		for c, g := range p {
			axpy(float32(-rate*g), m.features, m.weights[c])
		}
	}
	return m
}

// affordable returns the maximum number of images to process.
func (m *Linear) affordable() int {
	return max(1, min(linearWork/(2*len(m.weights)*len(m.features)), linearValues/len(m.values)))
}

// Score returns the mean loss in nats and the accuracy on held-out images.
func (m *Linear) Score() (loss, accuracy float64) {
	held := m.images.HeldOut
	n, p := min(held, m.affordable()), make([]float64, len(m.weights))
	for i := range n {
		class := m.images.ReadHeldOut(i*held/n, m.values)
		m.reduce()
		m.probabilities(p)
		loss -= exactmath.Log(max(p[class], math.SmallestNonzeroFloat64))
		best := 0
		for c := range p {
			if p[c] > p[best] {
				best = c
			}
		}
		if best == int(class) {
			accuracy++
		}
	}
	return loss / float64(n), accuracy / float64(n)
}

// probabilities sets p to the softmax of the logits.
func (m *Linear) probabilities(p []float64) {
	top, sum := math.Inf(-1), 0.0
	for c, w := range m.weights {
		p[c] = float64(dot(w, m.features))
		top = max(top, p[c])
	}
	for c := range p {
		p[c] = exactmath.Exp(p[c] - top)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
}

// reduce fills features from values. Pixels that do not fill a block, at the right
// and at the bottom, are ignored.
func (m *Linear) reduce() {
	if m.block == 1 {
		copy(m.features, m.values)
		return
	}
	channels := m.images.Channels
	at, part := 0, 1/float32(m.block*m.block)
	for y := range m.side {
		for x := range m.side {
			for c := range channels {
				sum := float32(0)
				for dy := range m.block {
					for dx := range m.block {
						sum += m.values[((y*m.block+dy)*m.images.Side+x*m.block+dx)*channels+c]
					}
				}
				m.features[at] = sum * part
				at++
			}
		}
	}
}

// dot adds in four chains, which the processor runs in parallel.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a) && i+4 <= len(b); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += float32(x[0] * y[0])
		s1 += float32(x[1] * y[1])
		s2 += float32(x[2] * y[2])
		s3 += float32(x[3] * y[3])
	}
	for ; i < len(a); i++ {
		s0 += float32(a[i] * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// axpy adds a*x to y.
func axpy(a float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(a * v)
	}
}
