package yamldoc

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/printable"
)

// The values of a document's fields are limited by their Go types and by tags
// `want:"..."`, words separated by commas:
//
//	1..64, >0..1   the range of a number; a missing end is its type's.
//	               Whole numbers are 1..16777216 unless a tag says otherwise,
//	               others 0..1e9.
//	optional       may be missing, or an empty list
//	null           may be missing or null, which says the same
//	entries=9000   the most entries of a list, in place of 1000
//	ascending      numbers of a list that are each larger than the one before
//	first=1        a list of numbers that begins with this one
//	key            entries of a list differ in this field, or in the fields that
//	               have this word together
//	none           keys and values that must be there, or the text none in their
//	               place, which leaves a pointer nil
//	shown          is only shown: see Deciding
//	partial        keys and values that change others: none of them must be present
//	name           a text that may be part of other texts: see nameForm
//	id             a text that may be a file's name: see idForm
//	another word   a text of that vocabulary: see Vocabularies
//
// The words of a list or a map apply to its entries, except optional and null. Every
// field must be present unless it is optional, a pointer, a truth value, or of a
// type with a syntax of its own that has a method IsZero. No
// list may contain an entry twice, unless it has a fixed length.

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._,()+=-]{0,63}$`)
	idForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

// Vocabularies are the sets of allowed texts, by the words that tags use for
// them. Each reports a text that is not in the set, and what is allowed, as
// "...: want ...". "name" and "id" are predefined.
type Vocabularies map[string]func(string) error

var builtIn = Vocabularies{
	"name": formed(nameForm, "letters, digits, spaces and any of ._,()+=- after the first, at most 64"),
	"id":   formed(idForm, "lower-case letters, digits and hyphens after the first, at most 64"),
}

func formed(form *regexp.Regexp, what string) func(string) error {
	return func(s string) error {
		if !form.MatchString(s) {
			return fmt.Errorf("%s: want %s", printable.Quoted(s), what)
		}
		return nil
	}
}

// OneOf returns the vocabulary of the given words.
func OneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("unknown %s: want %s", printable.Quoted(s), strings.Join(words, ", "))
		}
		return nil
	}
}

// WantError says what a field with its own syntax accepts, such as 90s or 3m.
// The type's UnmarshalYAML returns one.
type WantError string

func (w WantError) Error() string { return "want " + string(w) }

// rule is the content of a tag.
type rule struct {
	least, most float64 // range of numbers
	above       bool    // least itself is not allowed
	optional    bool
	null        bool
	entries     int // of a list, at most
	ascending   bool
	first       string // of a list; "": any
	key         bool
	none        bool
	shown       bool
	partial     bool
	word        string // of a vocabulary
}

var rangeForm = regexp.MustCompile(`^(>?)([-0-9.e]*?)\.\.([0-9.e]*)$`)

// ruleOf parses a tag. An invalid one is a defect of the program.
func ruleOf(tag reflect.StructTag, t reflect.Type) (r rule) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch r.least, r.most = 1, 1<<24; t.Kind() {
	case reflect.Float64:
		r.least, r.most = 0, 1e9
	case reflect.Uint64:
		r.most = math.MaxUint64
	}
	r.entries = maxEntries
	flags := map[string]*bool{"optional": &r.optional, "null": &r.null, "ascending": &r.ascending, "key": &r.key, "none": &r.none, "shown": &r.shown, "partial": &r.partial}
	for word := range strings.SplitSeq(tag.Get("want"), ",") {
		first, begins := strings.CutPrefix(word, "first=")
		most, limited := strings.CutPrefix(word, "entries=")
		m := rangeForm.FindStringSubmatch(word)
		switch {
		case flags[word] != nil:
			*flags[word] = true
		case begins:
			r.first = first
		case limited:
			var err error
			if r.entries, err = strconv.Atoi(most); err != nil {
				panic("yamldoc: tag " + word)
			}
		case m != nil:
			var err error
			if r.least, err = strconv.ParseFloat(m[2], 64); err == nil && m[3] != "" {
				r.most, err = strconv.ParseFloat(m[3], 64)
			}
			if err != nil {
				panic("yamldoc: tag " + word)
			}
			r.above = m[1] != ""
		default:
			r.word = word
		}
	}
	r.optional = r.optional || r.null
	return r
}

// takes reports whether a number is in range.
func (r rule) takes(x float64) bool { return (x > r.least || x == r.least && !r.above) && x <= r.most }

// field is a key from which a struct is decoded.
type field struct {
	name  string
	of    reflect.Type
	index []int
	rule
}

// fieldsOf returns the keys from which a struct is decoded.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
		case name != "-" && f.IsExported():
			fields = append(fields, field{cmp.Or(name, strings.ToLower(f.Name)), f.Type, []int{i}, ruleOf(f.Tag, f.Type)})
		}
	}
	return fields
}

func fieldNames(fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// Words lists the texts in a value that belong to a vocabulary, in the order of
// its fields.
func Words(of any, vocabulary string) []string {
	return wordsOf(reflect.ValueOf(of), vocabulary, false)
}

// wordsOf is Words; is says that v itself belongs to the vocabulary.
func wordsOf(v reflect.Value, word string, is bool) (all []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return wordsOf(v.Elem(), word, is)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = append(all, wordsOf(v.Index(i), word, is)...)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			all = append(all, wordsOf(v.MapIndex(k), word, is)...)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			all = append(all, wordsOf(v.FieldByIndex(f.index), word, f.word == word)...)
		}
	case reflect.String:
		if is && v.String() != "" {
			all = append(all, v.String())
		}
	}
	return all
}
