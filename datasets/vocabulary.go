package datasets

import "fmt"

// The special tokens are the first ids of every vocabulary.
const (
	Pad     int32 = iota // fills up a row
	Begin                // stands before a target
	End                  // ends a source and a target
	Unknown              // what the vocabulary has no piece for

	firstPiece
)

// unknownText is what Unknown reads as.
const unknownText = "\uFFFD"

// Vocabulary maps text to token ids and back. A text is words with white space
// between them; how much, and which, is not kept.
type Vocabulary interface {
	// Size is the number of ids, special tokens included: they are 0..Size-1.
	Size() int

	// Encode returns the pieces of a text, without Begin or End.
	Encode(text string) []int32

	// Decode returns the words of ids up to the first End, one space between
	// them. Pad and Begin are skipped; Unknown, and an id that the vocabulary
	// does not have, read as U+FFFD.
	Decode(ids []int32) string

	// Piece is an id as it can be shown, with a mark for where a word ends or
	// goes on.
	Piece(id int32) string
}

// VocabularyDescription is all of a vocabulary, as it can be kept with the weights
// of a network that was trained on it.
type VocabularyDescription struct {
	// Pieces are what Piece says of each id.
	Pieces []string `json:"pieces"`
	// Joins are the ids of the left and the right piece of each join of byte pairs,
	// the one that was learnt first first. What they make is the piece of both
	// texts. Nil of a vocabulary that joins nothing.
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

// special is the name of a special token.
func special(id int32) string {
	switch id {
	case Pad:
		return "<pad>"
	case Begin:
		return "<s>"
	case End:
		return "</s>"
	case Unknown:
		return "<unk>"
	}
	return fmt.Sprintf("<%d>", id)
}
