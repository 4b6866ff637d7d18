package datasets

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/datasets/gettext"
	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/philox"
)

// SystemCatalogs is where Linux systems have the catalogs of installed programs.
const SystemCatalogs = "/usr/share/locale"

// gettextWords is the most different words from which joins are learnt.
const gettextWords = 1 << 19

// OpenGettext reads the catalogs that an argument names, DIR[,LANG...]; see
// gettext.Read. Sentences of every language are translated into
// English, as in GPipe's section 5. Translation describes the source.
//
// Which sentences are held out depends on nothing but the English ones, and no
// English sentence is held out in one language and trained on in another, see
// gettext.Corpus.Split. A language without a sentence in either part is left
// out, as is one whose sentences to train on are all longer than
// Config.SeqLen; if it is named in the argument, that is an error.
//
// Byte-pair vocabularies are learnt from the training part, see learnVocabularies.
func OpenGettext(argument string, c Config) (*Translation, error) {
	if err := c.validateTranslation(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	name := "gettext:" + printable(argument)
	dir, languages, err := splitCatalogs(argument)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	read, err := gettext.Read(dir, languages)
	if err != nil {
		return nil, err
	}
	corpora := corporaOf(read, c.Translation)
	source, target := learnVocabularies(corpora, c.Translation)
	corpora = slices.DeleteFunc(corpora, func(from corpus) bool { return !from.fits(c.SeqLen) })
	var left []string
	for i := range read.Languages {
		l := read.Languages[i].Name
		if slices.ContainsFunc(corpora, func(from corpus) bool { return from.name == l }) {
			continue
		}
		if len(languages) > 0 {
			return nil, fmt.Errorf("%s: %s has no sentence of up to %d tokens to train on, or none to hold out, want more catalogs", name, printable(l), c.SeqLen)
		}
		left = append(left, l)
	}
	if len(corpora) == 0 {
		return nil, fmt.Errorf("%s: no language has sentences of up to %d tokens to train on and others to hold out, want more catalogs", name, c.SeqLen)
	}
	if only := c.Translation.Only; only != "" {
		corpora = slices.DeleteFunc(corpora, func(from corpus) bool { return from.name != only })
		if len(corpora) == 0 {
			return nil, fmt.Errorf("%s: %s alone: want one of its languages", name, printable(only))
		}
	}
	t, err := newTranslation(name, source, target, corpora, c)
	if err != nil {
		return nil, err
	}
	t.left = left
	return t, nil
}

// CatalogsOf returns the directory and the languages, as gettext.Read takes
// them, of a specification gettext:DIR[,LANG...].
func CatalogsOf(spec string) (dir string, languages []string, err error) {
	kind, argument, err := parse(spec)
	if err == nil && kind != "gettext" {
		err = fmt.Errorf("data source %s: want gettext:DIR[,LANG...]", printable(spec))
	}
	if err != nil {
		return "", nil, err
	}
	return splitCatalogs(argument)
}

// splitCatalogs splits an argument DIR[,LANG...].
func splitCatalogs(argument string) (dir string, languages []string, err error) {
	names := strings.Split(argument, ",")
	dir, languages = names[0], names[1:]
	if dir == "" {
		return "", nil, errors.New("no directory, want gettext:DIR[,LANG...]")
	}
	for i, l := range languages {
		switch {
		case l == "" || l != filepath.Base(l) || strings.HasPrefix(l, "."):
			return "", nil, fmt.Errorf("language %s, want the name of a folder in %s, such as fr or pt_BR", printable(l), printable(dir))
		case gettext.IsEnglish(l):
			return "", nil, fmt.Errorf("language %s is English, want others: catalogs translate from English", printable(l))
		case slices.Contains(languages[:i], l):
			return "", nil, fmt.Errorf("language %s is named twice, want it once", printable(l))
		}
	}
	return dir, languages, nil
}

// corporaOf returns the languages with pairs in both parts.
func corporaOf(read *gettext.Corpus, c TranslationConfig) (corpora []corpus) {
	for i := range read.Languages {
		l := &read.Languages[i]
		train, heldOut := read.Split(l, c.HeldOut)
		if len(train) == 0 || len(heldOut) == 0 {
			continue
		}
		from := corpus{name: l.Name, heldOut: len(heldOut)}
		for _, p := range append(train, heldOut...) {
			from.source = append(from.source, p.Translation)
			from.target = append(from.target, read.English[p.English].Text)
		}
		corpora = append(corpora, from)
	}
	return corpora
}

// fits reports whether any pair to train on has at most limit tokens on either
// side, with End.
func (from *corpus) fits(limit int) bool {
	for i := range from.trained() {
		if max(len(from.sourceIDs[i]), len(from.targetIDs[i])) < limit {
			return true
		}
	}
	return false
}

// learnVocabularies learns from the training parts of all languages together, one
// vocabulary of their sentences and one of all translations, or one of both
// (TranslationConfig.Shared), and encodes all texts. Half of a vocabulary, at most, is
// characters, the most frequent ones; others are Unknown. Time and memory are bounded, see
// catalogWords. The words of a language count as often as it is drawn in
// training, relative to the largest one: w = (n_max/n)^(1-1/T) times for n of
// n_max pairs at temperature T, rounded. So the vocabulary follows the shares
// of the languages, like that of Arivazhagan et al. (Massively Multilingual
// Neural Machine Translation in the Wild, arXiv 1907.05019), whose text is also
// sampled by a temperature.
func learnVocabularies(corpora []corpus, c TranslationConfig) (source, target *BPE) {
	most := 0
	for i := range corpora {
		most = max(most, corpora[i].trained())
	}
	sources, targets := newCatalogWords(len(corpora)), newCatalogWords(len(corpora))
	if c.Shared {
		sources = newCatalogWords(2 * len(corpora))
		targets = sources
	}
	for i := range corpora {
		from := &corpora[i]
		train := from.trained()
		weight := int(math.Round(exactmath.Pow(float64(most)/float64(train), 1-1/c.Temperature)))
		sources.add(from.source[:train], weight)
		targets.add(from.target[:train], weight)
	}
	target = targets.learn(c.Vocab)
	if source = target; !c.Shared {
		source = sources.learn(c.SourceVocab)
	}
	for i := range corpora {
		from := &corpora[i]
		from.sourceIDs, from.targetIDs = source.encodeAll(from.source), target.encodeAll(from.target)
	}
	return source, target
}

// trained returns the number of pairs to train on.
func (from *corpus) trained() int { return len(from.source) - from.heldOut }

// catalogWords are the words from which a vocabulary of many languages is
// learnt: of each text its most frequent ones, so that all of them together are
// at most gettextWords. Of equally frequent words those with the lowest hashes
// are taken, as in scripts without spaces nearly every word occurs once.
type catalogWords struct {
	most       int            // words of a text
	words      map[string]int // weighted frequencies
	characters map[rune]int   // of all words
}

func newCatalogWords(texts int) *catalogWords {
	return &catalogWords{most: gettextWords / max(texts, 1), words: map[string]int{}, characters: map[rune]int{}}
}

func (c *catalogWords) add(texts []string, weight int) {
	counts := map[string]int{}
	for _, t := range texts {
		for w := range strings.FieldsSeq(t) {
			counts[w]++
		}
	}
	type word struct {
		text string
		hash uint64
	}
	var own []word
	for w, n := range counts {
		own = append(own, word{w, philox.Hash(w)})
		for _, r := range w {
			c.characters[r] += n * weight
		}
	}
	slices.SortFunc(own, func(a, b word) int {
		return cmp.Or(cmp.Compare(counts[b.text], counts[a.text]), cmp.Compare(a.hash, b.hash), cmp.Compare(a.text, b.text))
	})
	for _, w := range own[:min(len(own), c.most)] {
		c.words[w.text] += counts[w.text] * weight
	}
}

func (c *catalogWords) learn(size int) *BPE {
	return learnBPE(c.words, frequentCharacters(c.characters, max(size/2-int(firstPiece), 1)), size)
}
