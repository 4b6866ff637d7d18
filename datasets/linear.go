package datasets

import "math"

// linearModel is multinomial logistic regression on an image's values: a
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
type linearModel struct {
	block    int // side of the blocks that are averaged
	side     int // of the reduced image, in blocks
	channels int
	weights  [][]float32 // (classes, side*side*channels + 1); the last is a bias
}

const (
	linearSide   = 32
	linearPasses = 5
	linearWork   = 1 << 30
	linearValues = 1 << 26
	linearRate   = 0.1
)

// trainLinear returns a model that is a pure function of the set.
func trainLinear(s *ImageSet) *linearModel {
	m := &linearModel{block: ceilDiv(s.size, linearSide), channels: s.channels, weights: make([][]float32, s.Vocab())}
	m.side = s.size / m.block
	features := m.side*m.side*m.channels + 1
	for c := range m.weights {
		m.weights[c] = make([]float32, features)
	}
	train := s.examples[Train]
	steps := min(linearPasses*train, m.affordable(s))
	in, p := m.newInput(s), make([]float64, len(m.weights))
	var order shuffle
	for step := range steps {
		epoch, i := step/train, step%train
		if i == 0 {
			order = s.epochOrder(epoch)
		}
		class := in.read(Train, s.inEpoch(epoch, order.at(i)))
		m.probabilities(p, in.features)
		p[class]-- // now the gradient of the loss with respect to the logits
		rate := linearRate * (1 - float64(step)/float64(steps)) / float64(dot(in.features, in.features))
		for c, g := range p {
			axpy(float32(-rate*g), in.features, m.weights[c])
		}
	}
	return m
}

// affordable returns the maximum number of images to process.
func (m *linearModel) affordable(s *ImageSet) int {
	return max(1, min(linearWork/(2*len(m.weights)*len(m.weights[0])), linearValues/s.elements()))
}

// score returns the mean loss in nats and the accuracy on held-out images.
func (m *linearModel) score(s *ImageSet) (loss, accuracy float64) {
	held := s.examples[HeldOut]
	n := min(held, m.affordable(s))
	in, p := m.newInput(s), make([]float64, len(m.weights))
	for i := range n {
		class := in.read(HeldOut, i*held/n)
		m.probabilities(p, in.features)
		loss -= math.Log(max(p[class], math.SmallestNonzeroFloat64))
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
func (m *linearModel) probabilities(p []float64, features []float32) {
	top, sum := math.Inf(-1), 0.0
	for c, w := range m.weights {
		p[c] = float64(dot(w, features))
		top = max(top, p[c])
	}
	for c := range p {
		p[c] = math.Exp(p[c] - top)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
}

// linearInput reads images in the form that a linear model takes.
type linearInput struct {
	set      *ImageSet
	model    *linearModel
	pixels   []byte
	values   []float32
	features []float32 // the last is 1
}

func (m *linearModel) newInput(s *ImageSet) *linearInput {
	in := &linearInput{set: s, model: m, pixels: make([]byte, s.elements()), values: make([]float32, s.elements())}
	in.features = make([]float32, len(m.weights[0]))
	in.features[len(in.features)-1] = 1
	return in
}

// read fills features and returns the class. Pixels that do not fill a block,
// at the right and at the bottom, are ignored.
func (in *linearInput) read(split Split, i int) int32 {
	class := in.set.pixels.read(split, i, in.pixels)
	in.set.decode(in.values, in.pixels)
	m := in.model
	if m.block == 1 {
		copy(in.features, in.values)
		return class
	}
	at, part := 0, 1/float32(m.block*m.block)
	for y := range m.side {
		for x := range m.side {
			for c := range m.channels {
				sum := float32(0)
				for dy := range m.block {
					for dx := range m.block {
						sum += in.values[((y*m.block+dy)*in.set.size+x*m.block+dx)*m.channels+c]
					}
				}
				in.features[at] = sum * part
				at++
			}
		}
	}
	return class
}

// dot adds in four chains, which the processor runs in parallel.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a) && i+4 <= len(b); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// axpy adds a*x to y.
func axpy(a float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += a * v
	}
}
