package nn

import (
	"math"
	"path"

	"gpipebench/nn/graph"
)

// EmbeddingConfig describes an embedding of tokens.
type EmbeddingConfig struct {
	Vocab   int         // number of tokens, at least 1
	Dim     int         // width of the model, at least 1
	SeqLen  int         // the longest sequence, at least 1
	Dropout float32     // rate behind the sum, in [0, 1); 0: none
	Init    Initializer // of the table; nil: Normal(Dim^-0.5), so that the scaled embedding has variance 1
}

// Embedding looks token ids up in a table, scales by sqrt(Dim) and adds
// sinusoidal positions (Vaswani et al. 2017, sections 3.4 and 3.5).
type Embedding struct {
	Table     *Param // (vocab, dim); a [Softmax] may share it
	Positions *Param // (seqLen, dim), frozen

	name    string
	config  EmbeddingConfig
	dropout *Dropout
}

// NewEmbedding returns an embedding. Its parameters are name/table and
// name/positions.
func NewEmbedding(name string, c EmbeddingConfig) *Embedding {
	wantPositive("embedding", name, "Vocab", c.Vocab)
	wantPositive("embedding", name, "Dim", c.Dim)
	wantPositive("embedding", name, "SeqLen", c.SeqLen)
	return &Embedding{
		Table: &Param{
			Name:  path.Join(name, "table"),
			Shape: graph.Shape{c.Vocab, c.Dim},
			Init:  orInit(c.Init, vocabularyInit(c.Dim)),
		},
		Positions: &Param{
			Name:   path.Join(name, "positions"),
			Shape:  graph.Shape{c.SeqLen, c.Dim},
			Init:   Sinusoid(),
			Frozen: true,
		},
		name:    name,
		config:  c,
		dropout: NewDropout(path.Join(name, "dropout"), c.Dropout),
	}
}

// vocabularyInit is that of a (vocab, dim) matrix, in front or at the end.
func vocabularyInit(dim int) Initializer { return Normal(1 / math.Sqrt(float64(dim))) }

func (e *Embedding) Name() string { return e.name }

func (e *Embedding) Params() []*Param { return []*Param{e.Table, e.Positions} }

// Forward takes ids (n, t) int32, each in [0, vocab), with t at most seqLen, and
// gives (n, t, dim).
func (e *Embedding) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	wantTuple("embedding", e.name, in, 1)
	ids := in[0]
	if ids.DType != graph.I32 || len(ids.Shape) != 2 || ids.Shape[1] > e.config.SeqLen {
		misuse("embedding", e.name, "%s comes in, want int32 ids (examples, at most %d tokens)", ids, e.config.SeqLen)
	}
	scale := float32(math.Sqrt(float64(e.config.Dim)))
	return e.dropout.Forward(t, t.Embed(t.Param(e.Table), ids, t.Param(e.Positions), scale))
}
