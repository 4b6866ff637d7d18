package gettext

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gpipebench/internal/files"
	"gpipebench/nn/philox"
)

const (
	// MaxCatalog is the maximum size of a catalog in bytes.
	MaxCatalog = 64 << 20
	// MaxBytes is the maximum size of all catalogs together.
	MaxBytes = 1 << 30
	// MaxPairs is the maximum number of pairs of all languages together.
	MaxPairs = 5_000_000
)

// Corpus is the sentences of the catalogs below a directory.
type Corpus struct {
	English   []Sentence // each once, in the order in which they were found
	Languages []Language
}

// Sentence is an English sentence. Those that differ only in case, punctuation
// and spaces are one for the split, and a language has only one of them.
type Sentence struct {
	Text string
	key  int32 // the same for such sentences
	hash uint64
}

// Pair is an English sentence, by its place in Corpus.English, and its
// translation.
type Pair struct {
	English     int32
	Translation string
}

// Language is what the catalogs have in one language. A variant, such as
// sr@latin, pt_BR or zh_TW, is a language of its own.
type Language struct {
	Name  string // of its folder
	Pairs []Pair // in the order of catalogs' names and messages
}

// Read reads the catalogs DIR/LANG/LC_MESSAGES/*.mo in the order of their names.
// Without languages it reads those of all folders of dir but English; of a
// named language there must be a folder. Contexts are dropped, and of plurals
// only the first form is taken.
//
// Charsets are converted to UTF-8; a catalog in one that is not known is left out.
// Links are followed. A catalog that cannot be
// read or is malformed is an error of one line that names it.
func Read(dir string, languages []string) (*Corpus, error) {
	r := reader{Corpus: &Corpus{}, cleaned: map[string]int32{}, places: map[string]int32{}, keys: map[string]int32{}}
	all := len(languages) == 0
	if all {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, files.In("gettext", dir, err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				languages = append(languages, e.Name())
			}
		}
	}
	for _, name := range languages {
		folder := filepath.Join(dir, name, "LC_MESSAGES")
		catalogs, err := catalogsIn(folder)
		switch {
		case all && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
			continue // something else than a language
		case err != nil:
			return nil, files.In("gettext", folder, err)
		case all && (len(catalogs) == 0 || IsEnglish(name)):
			continue
		case len(catalogs) == 0:
			return nil, files.In("gettext", folder, errors.New("no catalogs, want *.mo"))
		}
		if err := r.read(name, folder, catalogs); err != nil {
			return nil, err
		}
	}
	if len(r.Languages) == 0 {
		return nil, files.In("gettext", dir, errors.New("no catalogs of other languages than English, want LANG/LC_MESSAGES/*.mo"))
	}
	return r.Corpus, nil
}

// IsEnglish reports whether a language is English or one of its variants.
func IsEnglish(language string) bool {
	end := strings.IndexAny(language, "_@.")
	return language == "en" || end >= 0 && language[:end] == "en"
}

// catalogsIn returns the names of the catalogs in a folder, in order.
func catalogsIn(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".mo") && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, err
}

// reader adds languages to a corpus.
type reader struct {
	*Corpus
	bytes, pairs int

	cleaned map[string]int32 // place in English of a message; -1: it is left out
	places  map[string]int32 // place in English of a sentence
	keys    map[string]int32 // of folded sentences
	seen    []int            // by key: number of languages when it was seen last
}

func (r *reader) read(name, folder string, catalogs []string) error {
	l := Language{Name: name}
	for _, file := range catalogs {
		path := filepath.Join(folder, file)
		data, err := files.Read(path, files.Kind{What: "a gettext catalog", Bytes: MaxCatalog})
		if err != nil {
			return files.In("gettext", path, err)
		}
		if r.bytes += len(data); r.bytes > MaxBytes {
			return files.In("gettext", path, fmt.Errorf("more than %s in all catalogs, want fewer languages", files.Size(MaxBytes)))
		}
		messages, charset, err := parse(data)
		if err != nil {
			return files.In("gettext", path, err)
		}
		text := decoder(charset)
		if text == nil {
			continue
		}
		for _, m := range messages {
			if err := r.add(&l, text(m.english), text(m.translation)); err != nil {
				return files.In("gettext", path, err)
			}
		}
	}
	r.Languages = append(r.Languages, l)
	return nil
}

// add adds a message as a pair, if no rule leaves it out.
func (r *reader) add(l *Language, english, translation string) error {
	place := r.english(english)
	if place < 0 {
		return nil
	}
	if translated, ok := clean(translation); ok && r.isNew(place, translated, len(r.Languages)+1) {
		l.Pairs = append(l.Pairs, Pair{place, translated})
		r.pairs++
	}
	if r.pairs > MaxPairs {
		return fmt.Errorf("more than %d pairs in all languages, want fewer languages", MaxPairs)
	}
	return nil
}

// english returns the place of a message's sentence, which is cleaned only the
// first time that a language has it; -1 if it is left out.
func (r *reader) english(message string) (place int32) {
	if len(strings.Fields(message)) < MinWords {
		return -1
	}
	place, known := r.cleaned[message]
	if !known {
		place = -1
		if text, ok := clean(message); ok && words(text) >= MinWords {
			place = r.place(text)
		}
		r.cleaned[message] = place
	}
	return place
}

// place returns the place of a sentence in English.
func (r *reader) place(text string) int32 {
	place, known := r.places[text]
	if !known {
		folded := fold(text)
		key, old := r.keys[folded]
		if !old {
			key = int32(len(r.seen))
			r.keys[folded] = key
			r.seen = append(r.seen, 0)
		}
		place = int32(len(r.English))
		r.places[text] = place
		r.English = append(r.English, Sentence{text, key, philox.Hash(folded)})
	}
	return place
}

// isNew reports whether a sentence is translated, and for the first time in a language,
// which its number says.
func (r *reader) isNew(place int32, translation string, language int) bool {
	s := r.English[place]
	if strings.EqualFold(translation, s.Text) || r.seen[s.key] == language {
		return false
	}
	r.seen[s.key] = language
	return true
}

// HeldOutPart is the part of the English sentences that is held out: one of
// this number.
const HeldOutPart = 10

// Split divides a language's pairs. Which English sentences are held out is the
// same in all languages: those whose hash is in the lowest tenth of its range,
// whatever else there is. Of a language's held-out pairs it returns at most the
// given number, those with the lowest hashes first; the others are in neither
// part. Pairs to train on are in the order of l.Pairs.
func (c *Corpus) Split(l *Language, most int) (train, heldOut []Pair) {
	for _, p := range l.Pairs {
		if c.English[p.English].hash < ^uint64(0)/HeldOutPart {
			heldOut = append(heldOut, p)
		} else {
			train = append(train, p)
		}
	}
	slices.SortStableFunc(heldOut, func(a, b Pair) int {
		return cmp.Compare(c.English[a.English].hash, c.English[b.English].hash)
	})
	return train, heldOut[:min(len(heldOut), most)]
}
