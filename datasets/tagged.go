package datasets

import (
	"slices"
	"strings"
)

// taggedVocabulary is a byte-pair vocabulary with more tokens after its pieces,
// each a word that stands for a target language: <2fr>.
type taggedVocabulary struct {
	*BPE
	tags []string
	ids  map[string]int32
}

// tag adds a token.
func (v *taggedVocabulary) tag(word string) int32 {
	id := int32(v.Size())
	v.tags, v.ids[word] = append(v.tags, word), id
	return id
}

func (v *taggedVocabulary) Size() int { return v.BPE.Size() + len(v.tags) }

// Encode returns a tag for the first word, if it is one, and the pieces of the
// others.
func (v *taggedVocabulary) Encode(text string) []int32 {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if id, ok := v.ids[first]; ok {
		return append([]int32{id}, v.BPE.Encode(rest)...)
	}
	return v.BPE.Encode(text)
}

// Decode returns the words of ids, see Vocabulary.
func (v *taggedVocabulary) Decode(ids []int32) string {
	if end := slices.Index(ids, End); end >= 0 {
		ids = ids[:end]
	}
	var words []string
	for len(ids) > 0 {
		tag := slices.IndexFunc(ids, v.isTag)
		if tag == 0 {
			words, ids = append(words, v.Piece(ids[0])), ids[1:]
			continue
		}
		if tag < 0 {
			tag = len(ids)
		}
		if text := v.BPE.Decode(ids[:tag]); text != "" {
			words = append(words, text)
		}
		ids = ids[tag:]
	}
	return strings.Join(words, " ")
}

func (v *taggedVocabulary) Piece(id int32) string {
	if v.isTag(id) {
		return v.tags[int(id)-v.BPE.Size()]
	}
	return v.BPE.Piece(id)
}

func (v *taggedVocabulary) isTag(id int32) bool {
	return int(id) >= v.BPE.Size() && int(id) < v.Size()
}
