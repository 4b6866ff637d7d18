package nn

import "gpipebench/nn/graph"

// SoftmaxConfig describes a projection to a vocabulary.
type SoftmaxConfig struct {
	Vocab int // number of tokens, at least 1
	Dim   int // width of the model, at least 1
	// Tied is the parameter (Vocab, Dim) to use as the weight, such as an
	// embedding's table (Press and Wolf 2017); nil: its own weight.
	Tied *Param
	// ClipLogits limits logits to this magnitude, against the instability of
	// deep Transformers (Huang et al. 2019, section 5); 0: no limit.
	ClipLogits float32
	// SoftClip limits them by limit·tanh(x/limit), which lets gradients pass, in place of a clip.
	SoftClip bool
	NoBias   bool        // zero: there is one
	Init     Initializer // of its own weight; nil: Normal(Dim^-0.5)
}

// Softmax is the layer of softmax pre-activations, x·Wᵀ + b. The loss turns
// them into probabilities, which is both cheaper and more exact.
type Softmax struct {
	Weight *Param // (vocab, dim)
	Bias   *Param // (vocab), or nil

	named
	config SoftmaxConfig
}

// NewSoftmax returns a projection to the vocabulary. Its parameters are
// name/weight, or the tied one, and name/bias.
func NewSoftmax(name string, c SoftmaxConfig) (l *Softmax) {
	l = &Softmax{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("softmax", name, "Vocab", c.Vocab)
	wantPositive("softmax", name, "Dim", c.Dim)
	if !(c.ClipLogits >= 0) {
		misuse("softmax", name, "ClipLogits is %v, want at least 0", c.ClipLogits)
	}
	if c.SoftClip && c.ClipLogits == 0 {
		misuse("softmax", name, "SoftClip without a limit, want ClipLogits above 0")
	}
	l.Weight = l.vocabulary("softmax", "weight", c.Tied, graph.Shape{c.Vocab, c.Dim}, c.Init)
	if !c.NoBias {
		l.Bias = l.own("bias", Param{Shape: graph.Shape{c.Vocab}, Init: Zeros(), NoDecay: true, Split: byVocabulary(c.Vocab)})
	}
	return l
}

// Forward takes x (..., dim) and returns logits (..., vocab).
func (s *Softmax) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("softmax", s.name, in, 1)
	wantWidth("softmax", s.name, in[0], s.config.Dim)
	logits := t.MatMulT(in[0], t.Param(s.Weight))
	if s.Bias != nil {
		logits = t.AddBias(logits, t.Param(s.Bias))
	}
	switch limit := s.config.ClipLogits; {
	case s.config.SoftClip:
		logits = t.Scale(t.Tanh(t.Scale(logits, 1/limit)), limit)
	case limit > 0:
		logits = t.Clip(logits, limit)
	}
	return []*graph.Node{logits}
}
