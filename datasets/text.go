package datasets

import (
	"fmt"
	"math"

	"gpipebench/datasets/baseline"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// heldOutPart: the last 1/heldOutPart of a text is held out, in one piece,
// since a model could profit from having seen the surroundings of scattered
// pieces.
const heldOutPart = 10

// Text is a text as a stream of bytes; each byte is a token.
//
// A training epoch cuts the training part into non-overlapping windows of
// SeqLen targets, and visits each once in random order. Each epoch's cut begins
// at its own random position below SeqLen, so that bytes occur in different
// contexts; an epoch therefore leaves out fewer than 2 SeqLen bytes. The last
// batch of an epoch is short if the batch size does not divide the number of
// windows.
//
// Held-out evaluation takes windows in order, the last one padded. Every
// held-out byte is a target exactly once: the first one's input is the last
// training byte.
type Text struct {
	name         string
	text         []byte
	cut          int // text[:cut] is for training
	seqLen       int
	windows      int // per epoch
	order, phase philox.Key
}

// NewText returns the source of a text in memory. The text must have at least
// ten sequences, so that one fits into the held-out part, and is kept, not
// copied. The name appears in errors.
func NewText(name string, text []byte, c Config) (*Text, error) {
	if err := c.validateSeqLen(); err != nil {
		return nil, err
	}
	seqLen := c.withDefaults().SeqLen
	if len(text) < heldOutPart*seqLen {
		what := fmt.Sprintf("%d bytes", len(text))
		if len(text) == 0 {
			what = "empty"
		}
		return nil, fmt.Errorf("%s: %s, want at least %d bytes: the last tenth is held out and has to hold a sequence of %d",
			name, what, heldOutPart*seqLen, seqLen)
	}
	cut := len(text) - len(text)/heldOutPart
	return &Text{
		name:    name,
		text:    text,
		cut:     cut,
		seqLen:  seqLen,
		windows: cut/seqLen - 1, // at least 8, since cut is at least 9 sequences
		order:   philox.KeyOf(c.Seed, "datasets/text/order"),
		phase:   philox.KeyOf(c.Seed, "datasets/text/phase"),
	}, nil
}

func (t *Text) Name() string { return t.name }

// Vocab returns 256, whichever bytes occur in the text.
func (t *Text) Vocab() int { return 256 }

// Bytes returns the text of a split. It must not be changed.
func (t *Text) Bytes(split Split) []byte {
	if split == Train {
		return t.text[:t.cut]
	}
	return t.text[t.cut:]
}

// Batches returns the number of batches of an epoch, or of the held-out pass.
func (t *Text) Batches(split Split, examples int) int {
	return ceilDiv(t.examples(split), examples)
}

// examples returns the number of windows in a pass over a split.
func (t *Text) examples(split Split) int {
	if split == Train {
		return t.windows
	}
	return ceilDiv(len(t.text)-t.cut, t.seqLen)
}

// Batch returns a batch of windows.
func (t *Text) Batch(split Split, index, examples int) (nn.Batch, error) {
	if err := checkBatch(split, index, examples, t.seqLen); err != nil {
		return nn.Batch{}, fmt.Errorf("%s: %w", t.name, err)
	}
	batches := t.Batches(split, examples)
	epoch, inEpoch := index/batches, index%batches
	first := inEpoch * examples
	b := newLMBatch(min(examples, t.examples(split)-first), t.seqLen)
	if split == HeldOut {
		if epoch > 0 {
			return nn.Batch{}, fmt.Errorf("%s: held-out batch %d of %d", t.name, index, batches)
		}
		for i := range b.n {
			fill(b, i, t.text[t.cut+(first+i)*t.seqLen-1:min(t.cut+(first+i+1)*t.seqLen, len(t.text))])
		}
		return b.batch(), nil
	}
	order := newShuffle(t.windows, t.order, uint64(epoch))
	phase := philox.NewStream(t.phase, uint64(epoch)).Intn(t.seqLen)
	for i := range b.n {
		from := phase + order.at(first+i)*t.seqLen
		fill(b, i, t.text[from:from+t.seqLen+1])
	}
	return b.batch(), nil
}

// Yardsticks returns uniform guessing and 3-gram and 5-gram models of the
// training part.
func (t *Text) Yardsticks() ([]Yardstick, error) {
	out := []Yardstick{NewYardstick("uniform", exactmath.Log(256))}
	train, held := t.Bytes(Train), t.Bytes(HeldOut)
	for _, n := range []int{3, 5} {
		m, err := baseline.TrainNGram(n, train)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		out = append(out, NewYardstick(fmt.Sprintf("%d-gram", n), m.Bits(train, held)*math.Ln2))
	}
	return out, nil
}
