package datasets

import "fmt"

// The special tokens are the first ids of every vocabulary.
const (
	Pad     int32 = iota // fills up a row
	Begin                // precedes a target
	End                  // ends a source and a target
	Unknown              // text for which the vocabulary has no piece

	firstPiece
)

// unknownText is the text of Unknown.
const unknownText = "\uFFFD"

// Vocabulary maps text to token ids and back. A text is words separated by
// white space, of which neither amount nor kind is kept.
type Vocabulary interface {
	// Size returns the number of ids, including special tokens: they are
	// 0..Size-1.
	Size() int

	// Encode returns the pieces of a text, without Begin or End.
	Encode(text string) []int32

	// Decode returns the words of ids up to the first End, separated by single
	// spaces. Pad and Begin are skipped; Unknown, and ids that the vocabulary
	// does not have, become U+FFFD.
	Decode(ids []int32) string

	// Piece returns an id in printable form, which marks where a word ends or
	// continues.
	Piece(id int32) string
}

// VocabularyDescription is a complete description of a vocabulary, to be kept
// with the weights of a network that was trained on it.
type VocabularyDescription struct {
	// Pieces are the results of Piece for all ids.
	Pieces []string `json:"pieces"`
	// Joins are the ids of the left and the right piece of each join of byte
	// pairs, in the order in which they were learnt. The result of a join is
	// the piece with both texts. Nil for a vocabulary without joins.
	Joins [][2]int32 `json:"joins,omitempty"`
}

// DescribeVocabulary describes a vocabulary.
func DescribeVocabulary(v Vocabulary) VocabularyDescription {
	var d VocabularyDescription
	for id := range v.Size() {
		d.Pieces = append(d.Pieces, v.Piece(int32(id)))
	}
	if b, ok := v.(*BPE); ok && len(b.joins) > 0 {
		d.Joins = make([][2]int32, len(b.joins))
		for p, j := range b.joins {
			d.Joins[j.rank] = [2]int32{p.left, p.right}
		}
	}
	return d
}

// special returns the name of a special token.
func special(id int32) string {
	if id >= 0 && id < firstPiece {
		return [firstPiece]string{Pad: "<pad>", Begin: "<s>", End: "</s>", Unknown: "<unk>"}[id]
	}
	return fmt.Sprintf("<%d>", id)
}
