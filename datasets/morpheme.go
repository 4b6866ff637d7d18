package datasets

import (
	"strings"

	"gpipebench/nn/philox"
)

// morphemes is the vocabulary of invented languages. Its pieces are whole
// morphemes: stems, names and particles, which are words by themselves, and
// prefixes and suffixes, which are spelled together with the word after or
// before them.
//
// The letters of a word show its parts, with c for a consonant and v for a
// vowel:
//
//	vc cvcvc vc vc      prefix, stem, suffixes
//	   cvcvcv vc vc     name, suffixes
//	   cvc              particle
//
// A word's length therefore determines its affixes, and Decode(Encode(x)) is x
// for every text in these languages.
type morphemes struct {
	pieces []string // by id - firstPiece; "-at" is a suffix, "at-" a prefix
	ids    map[string]int32
}

func (m *morphemes) add(piece string) int32 {
	id, ok := m.ids[piece]
	if !ok {
		if m.ids == nil {
			m.ids = map[string]int32{}
		}
		id = firstPiece + int32(len(m.pieces))
		m.pieces, m.ids[piece] = append(m.pieces, piece), id
	}
	return id
}

// Size returns the number of ids, including special tokens.
func (m *morphemes) Size() int { return int(firstPiece) + len(m.pieces) }

// Piece returns a morpheme, with a hyphen where it joins another.
func (m *morphemes) Piece(id int32) string {
	if id < firstPiece || int(id) >= m.Size() {
		return special(id)
	}
	return m.pieces[id-firstPiece]
}

// Encode returns the morphemes of every word; a word that contains an unknown
// one is Unknown.
func (m *morphemes) Encode(text string) []int32 {
	var ids []int32
	for _, word := range strings.Fields(text) {
		start := len(ids)
		for _, piece := range cutWord(word) {
			id, ok := m.ids[piece]
			if !ok {
				ids = append(ids[:start], Unknown)
				break
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// cutWord returns the pieces of a word of these languages, nil for other words.
func cutWord(word string) []string {
	var pieces []string
	rest := word
	if len(rest) > 2 && strings.IndexByte(vowels, rest[0]) >= 0 {
		pieces, rest = append(pieces, rest[:2]+"-"), rest[2:]
	}
	root := 5 // a stem: its length with suffixes is odd
	switch {
	case len(rest) == 3:
		root = 3
	case len(rest)%2 == 0:
		root = 6
	}
	if len(rest) < root {
		return append(pieces, rest)
	}
	pieces, rest = append(pieces, rest[:root]), rest[root:]
	for len(rest) > 0 {
		pieces, rest = append(pieces, "-"+rest[:2]), rest[2:]
	}
	return pieces
}

// Decode returns the words of ids, see Vocabulary.
func (m *morphemes) Decode(ids []int32) string {
	var text strings.Builder
	joined := true // to what precedes it: initially nothing, later a prefix
	for _, id := range ids {
		if id == End {
			break
		}
		if id == Pad || id == Begin {
			continue
		}
		piece := unknownText
		if id >= firstPiece && int(id) < m.Size() {
			piece = m.pieces[id-firstPiece]
		}
		suffix, isSuffix := strings.CutPrefix(piece, "-")
		stem, isPrefix := strings.CutSuffix(suffix, "-")
		if !joined && !isSuffix {
			text.WriteByte(' ')
		}
		text.WriteString(stem)
		joined = isPrefix
	}
	return text.String()
}

const (
	vowels     = "aeiou"
	consonants = "bcdfghjklmnpqrstvwxz"
)

// speller makes up morphemes in the sounds of one language. Its stems, names
// and particles are in no other language; its affixes differ from each other.
type speller struct {
	random     *philox.Stream
	vowels     string
	consonants string
	taken      map[string]bool // by any language
	affixes    map[string]bool
}

func newSpeller(random *philox.Stream, taken map[string]bool) *speller {
	s := &speller{random: random, taken: taken, affixes: map[string]bool{}}
	s.vowels = some(random, vowels, 4)
	s.consonants = some(random, consonants, 14)
	return s
}

// some returns n of the letters.
func some(random *philox.Stream, letters string, n int) string {
	var out strings.Builder
	for _, i := range permutation(random, len(letters))[:n] {
		out.WriteByte(letters[i])
	}
	return out.String()
}

// spell draws letters for a pattern of c and v until the word is not taken.
func (s *speller) spell(pattern string, taken map[string]bool) string {
	for {
		word := make([]byte, len(pattern))
		for i, kind := range []byte(pattern) {
			letters := s.consonants
			if kind == 'v' {
				letters = s.vowels
			}
			word[i] = letters[s.random.Intn(len(letters))]
		}
		if !taken[string(word)] {
			taken[string(word)] = true
			return string(word)
		}
	}
}

func (s *speller) stem() string     { return s.spell("cvcvc", s.taken) }
func (s *speller) name() string     { return s.spell("cvcvcv", s.taken) }
func (s *speller) particle() string { return s.spell("cvc", s.taken) }
func (s *speller) affix() string    { return s.spell("vc", s.affixes) }
