package yamldoc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/printable"
)

// The values of a document's fields are limited by their Go types and by tags
// `want:"..."`, words separated by commas:
//
//	1..64, >0..1   the range of a number; a missing end is that of its type.
//	               Whole numbers are 1..16777216 unless a tag says otherwise,
//	               others 0..1e9.
//	optional       may be missing, or an empty list
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
// The words of a list or a map apply to its entries, except optional. Every
// field must be present unless it is optional, a pointer or a truth value. No
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
	flags := map[string]*bool{"optional": &r.optional, "ascending": &r.ascending, "key": &r.key, "none": &r.none, "shown": &r.shown, "partial": &r.partial}
	for word := range strings.SplitSeq(tag.Get("want"), ",") {
		first, begins := strings.CutPrefix(word, "first=")
		m := rangeForm.FindStringSubmatch(word)
		switch {
		case flags[word] != nil:
			*flags[word] = true
		case begins:
			r.first = first
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
	return r
}

// takes reports whether a number is in range.
func (r rule) takes(x float64) bool {
	return (x > r.least || x == r.least && !r.above) && x <= r.most
}

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

// The maximum numbers of values and of list entries in a document, and the maximum
// length of a text in bytes.
const (
	maxValues  = 100_000
	maxEntries = 1000
	maxLine    = 4000
)

// fieldReader checks a document against the type into which it is decoded.
type fieldReader struct {
	words  Vocabularies
	values int // read so far
}

// check checks a text against a vocabulary. An unknown vocabulary is a defect
// of the program.
func (r *fieldReader) check(word, text string) error {
	for _, words := range []Vocabularies{r.words, builtIn} {
		if of := words[word]; of != nil {
			return of(text)
		}
	}
	panic("yamldoc: tag " + word)
}

// value checks a value.
func (r *fieldReader) value(n *yaml.Node, t reflect.Type, rule rule, path []string) *Problem {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.values++; r.values > maxValues {
		return problem(n, path, "more than %d values: want fewer", maxValues)
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	wrong := func(what string) *Problem { return problem(n, path, "%s: want %s", what, r.wanted(t, rule)) }
	switch {
	case !rule.none || n.Kind != yaml.ScalarNode:
	case n.Value == "none":
		n.Tag, n.Value = "!!null", ""
		return nil
	default:
		return wrong(printable.Quoted(n.Value))
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return wrong("nothing")
	}
	into := reflect.New(t)
	if own, ok := into.Interface().(yaml.Unmarshaler); ok {
		err := own.UnmarshalYAML(n)
		var want WantError
		if errors.As(err, &want) && n.Kind == yaml.ScalarNode {
			err = fmt.Errorf("%s: %w", printable.Quoted(n.Value), want)
		}
		return refused(n, path, err)
	}
	switch {
	case t.Kind() == reflect.Struct:
		return r.fields(n, t, rule.partial, path)
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return r.list(n, t, rule, path)
	case t.Kind() == reflect.Map:
		return r.entries(n, t, rule, path)
	case n.Kind != yaml.ScalarNode || n.Decode(into.Interface()) != nil:
		return wrong(kindText(n))
	}
	tag, v, right := n.ShortTag(), into.Elem(), false
	switch t.Kind() {
	case reflect.String:
		if rule.word != "" && (v.String() != "" || !rule.optional) {
			return refused(n, path, r.check(rule.word, v.String()))
		}
		right = isLine(v.String()) || v.String() == "" && rule.optional
	case reflect.Bool:
		right = tag == "!!bool"
	case reflect.Float64:
		right = (tag == "!!int" || tag == "!!float") && rule.takes(v.Float())
	case reflect.Uint64:
		right = tag == "!!int" && rule.takes(float64(v.Uint()))
	default:
		right = tag == "!!int" && rule.takes(float64(v.Int()))
	}
	if !right {
		return wrong(kindText(n))
	}
	return nil
}

// fields checks a mapping against a struct; if partial, one of which any field may be missing.
func (r *fieldReader) fields(n *yaml.Node, t reflect.Type, partial bool, path []string) *Problem {
	fields := fieldsOf(t)
	if n.Kind != yaml.MappingNode {
		return problem(n, path, "%s: want keys and values: %s", kindText(n), fieldNames(fields))
	}
	seen := make([]bool, len(fields))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		switch {
		case at < 0:
			return problem(key, path, "unknown field %s: want %s", plainKey(key.Value), fieldNames(fields))
		case seen[at]:
			return problem(key, path, "field %s is there twice: want it once", key.Value)
		}
		seen[at] = true
		fields[at].partial = fields[at].partial || partial
		if p := r.value(n.Content[i+1], fields[at].of, fields[at].rule, below(path, key.Value)); p != nil {
			return p
		}
	}
	for i, f := range fields {
		if !seen[i] && !partial && f.needed() {
			return problem(n, path, "no %s: want %s", f.name, r.wanted(f.of, f.rule))
		}
	}
	return nil
}

// needed reports whether a field must be present, because its zero value is not
// in its range.
func (f field) needed() bool {
	if f.optional || f.partial {
		return false
	}
	if _, ok := reflect.New(f.of).Interface().(yaml.Unmarshaler); ok {
		return f.of.Kind() != reflect.Pointer
	}
	switch f.of.Kind() {
	case reflect.Bool, reflect.Pointer:
		return f.none
	case reflect.Struct:
		return slices.ContainsFunc(fieldsOf(f.of), field.needed)
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return !f.takes(0)
	}
	return true
}

// list checks a sequence.
func (r *fieldReader) list(n *yaml.Node, t reflect.Type, rule rule, path []string) *Problem {
	switch {
	case n.Kind != yaml.SequenceNode:
		return problem(n, path, "%s: want %s", kindText(n), r.wanted(t, rule))
	case t.Kind() == reflect.Array && len(n.Content) != t.Len():
		return problem(n, path, "%d entries: want %d", len(n.Content), t.Len())
	case len(n.Content) == 0 && !rule.optional:
		return problem(n, path, "an empty list: want at least one entry")
	case len(n.Content) > maxEntries:
		return problem(n, path, "%d entries: want at most %d", len(n.Content), maxEntries)
	case rule.first != "" && len(n.Content) > 0 && n.Content[0].Value != rule.first:
		return problem(n.Content[0], below(path, "0"), "%s: want %s first", printable.Quoted(n.Content[0].Value), rule.first)
	}
	rule.optional = false
	element := t.Elem()
	for element.Kind() == reflect.Pointer {
		element = element.Elem()
	}
	var keys []string
	what := "this entry"
	if _, own := reflect.New(element).Interface().(yaml.Unmarshaler); !own && element.Kind() == reflect.Struct {
		for _, f := range fieldsOf(element) {
			if f.key {
				keys = append(keys, f.name)
				what = "an entry of this " + strings.Join(keys, " and ")
			}
		}
	}
	seen := map[string]int{}
	before := math.Inf(-1)
	for i, entry := range n.Content {
		here := below(path, strconv.Itoa(i))
		if x := 0.0; rule.ascending && entry.Decode(&x) == nil {
			if x <= before {
				return problem(entry, here, "%s: want more than the one before, in ascending order", printable.Quoted(entry.Value))
			}
			before = x
		}
		if p := r.value(entry, element, rule, here); p != nil {
			return p
		}
		is := identity(entry, keys)
		if first, twice := seen[is]; twice && t.Kind() != reflect.Array {
			return problem(entry, here, "%s is there already, as entry %d: want each once", what, first)
		}
		seen[is] = i
	}
	return nil
}

// identity is a text that differs between entries of a list that has been checked: of the
// values of some keys, or without any of the whole entry.
func identity(n *yaml.Node, keys []string) (text string) {
	var x any
	_ = n.Decode(&x) // it has been decoded
	m, _ := x.(map[string]any)
	for _, key := range keys {
		text += fmt.Sprintf("%s: %v, ", key, m[key])
	}
	if len(keys) == 0 {
		text = fmt.Sprint(x)
	}
	return text
}

// entries checks a mapping with arbitrary keys.
func (r *fieldReader) entries(n *yaml.Node, t reflect.Type, rule rule, path []string) *Problem {
	switch {
	case n.Kind != yaml.MappingNode:
		return problem(n, path, "%s: want %s", kindText(n), r.wanted(t, rule))
	case len(n.Content) == 0 && !rule.optional:
		return problem(n, path, "no entry: want at least one")
	case len(n.Content) > 2*maxEntries:
		return problem(n, path, "%d entries: want at most %d", len(n.Content)/2, maxEntries)
	}
	rule.optional = false
	keys := ruleOf("", t.Key())
	if t.Key().Kind() == reflect.String {
		keys.word = "name"
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if p := r.value(key, t.Key(), keys, path); p != nil {
			return p
		}
		is := identity(key, nil)
		if seen[is] {
			return problem(key, path, "%s is there twice: want it once", key.Value)
		}
		seen[is] = true
		if p := r.value(n.Content[i+1], t.Elem(), rule, below(path, key.Value)); p != nil {
			return p
		}
	}
	return nil
}

// below returns the path of the value under a key.
func below(path []string, key string) []string { return append(slices.Clone(path), key) }

// problem returns an error about a node.
func problem(n *yaml.Node, path []string, format string, args ...any) *Problem {
	return refused(n, path, fmt.Errorf(format, args...))
}

func refused(n *yaml.Node, path []string, err error) *Problem {
	p := At(err, path...)
	if p != nil {
		p.at = n
	}
	return p
}

// wanted describes what a field accepts.
func (r *fieldReader) wanted(t reflect.Type, rule rule) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if own, ok := reflect.New(t).Interface().(yaml.Unmarshaler); ok {
		var want WantError
		if errors.As(own.UnmarshalYAML(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}), &want) {
			return string(want)
		}
		return "a value"
	}
	what := "a whole number"
	switch t.Kind() {
	case reflect.Struct:
		if rule.none {
			return "none, or keys and values: " + fieldNames(fieldsOf(t))
		}
		return "keys and values: " + fieldNames(fieldsOf(t))
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map:
		return "keys and values"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		if rule.word != "" {
			if _, after, ok := strings.Cut(r.check(rule.word, "").Error(), ": want "); ok {
				return after
			}
		}
		return fmt.Sprintf("a line of text without control characters, at most %d long", maxLine)
	case reflect.Uint64:
		return "a whole number of 1 or more"
	case reflect.Float64:
		what = "a number"
	}
	from := "from"
	if rule.above {
		from = "above"
	}
	return fmt.Sprintf("%s %s %.10g to %.10g", what, from, rule.least, rule.most)
}

// isLine reports whether a text fits into tables and notes.
func isLine(s string) bool {
	return strings.TrimSpace(s) != "" && len(s) <= maxLine && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// kindText describes a node.
func kindText(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys and values"
	}
	return printable.Quoted(n.Value)
}

// plainKey returns a key, quoted unless it is a plain word.
func plainKey(s string) string {
	if nameForm.MatchString(s) {
		return s
	}
	return printable.Quoted(s)
}
