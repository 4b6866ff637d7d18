package nn

import (
	"math"
	"path"
	"slices"

	"gpipebench/nn/graph"
)

// EmbeddingConfig describes an embedding of tokens.
type EmbeddingConfig struct {
	Vocab   int     // number of tokens, at least 1
	Dim     int     // width of the model, at least 1
	SeqLen  int     // longest sequence, at least 1
	Dropout float32 // rate of the dropout after the sum, in [0, 1); 0: none
	// Tied is the parameter (Vocab, Dim) to use as the table, such as that of
	// the other side of a translation; nil: its own table.
	Tied *Param
	Init Initializer // of its own table; nil: Normal(Dim^-0.5), so that the scaled embedding has variance 1
	// Plain leaves out the scale and the positions, which recurrent layers do not need:
	// their table is zeros.
	Plain bool
}

// Embedding looks token ids up in a table, scales by sqrt(Dim) and adds
// sinusoidal positions (Vaswani et al. 2017, sections 3.4 and 3.5).
type Embedding struct {
	Table     *Param // (vocab, dim); a [Softmax] may share it
	Positions *Param // (seqLen, dim), frozen

	named
	config  EmbeddingConfig
	dropout *Dropout
}

// NewEmbedding returns an embedding. Its parameters are name/table, or the tied
// one, and name/positions.
func NewEmbedding(name string, c EmbeddingConfig) (l *Embedding) {
	l = &Embedding{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("embedding", name, "Vocab", c.Vocab)
	wantPositive("embedding", name, "Dim", c.Dim)
	wantPositive("embedding", name, "SeqLen", c.SeqLen)
	l.Table = l.vocabulary("embedding", "table", c.Tied, graph.Shape{c.Vocab, c.Dim}, c.Init)
	positions := Sinusoid()
	if c.Plain {
		positions = Zeros()
	}
	l.Positions = l.own("positions", Param{Shape: graph.Shape{c.SeqLen, c.Dim}, Init: positions, Frozen: true})
	l.dropout = NewDropout(path.Join(name, "dropout"), c.Dropout)
	return l
}

// vocabulary is a (vocab, dim) matrix, an embedding's table or a softmax's weight: a layer's own, or the one that
// it is tied to.
func (n *named) vocabulary(kind, what string, tied *Param, shape graph.Shape, init Initializer) *Param {
	switch {
	case tied == nil:
		normal := Normal(1 / math.Sqrt(float64(shape[1])))
		return n.own(what, Param{Shape: shape, Init: orInit(init, normal), Split: byVocabulary(shape[0])})
	case init != nil:
		misuse(kind, n.name, "Init of a tied %s", what)
	case !slices.Equal(tied.Shape, shape):
		misuse(kind, n.name, "tied to %s of shape %s, want %s", tied.Name, tied.Shape, shape)
	}
	n.params = append(n.params, tied)
	return tied
}

// byVocabulary divides a table, or a bias, by its rows of tokens.
func byVocabulary(tokens int) graph.Split {
	return graph.Split{Sections: 1, Units: tokens, Summed: true}
}

// Forward takes ids (n, t) int32, each in [0, vocab), with t at most seqLen,
// and returns (n, t, dim).
func (e *Embedding) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("embedding", e.name, in, 1)
	ids := in[0]
	if ids.DType != graph.I32 || len(ids.Shape) != 2 || ids.Shape[1] > e.config.SeqLen {
		misuse("embedding", e.name, "%s comes in, want int32 ids (examples, at most %d tokens)", ids, e.config.SeqLen)
	}
	scale := float32(math.Sqrt(float64(e.config.Dim)))
	if e.config.Plain {
		scale = 1
	}
	return e.dropout.Forward(t, t.Embed(t.Param(e.Table), ids, t.Param(e.Positions), scale))
}
