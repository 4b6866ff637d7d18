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
	switch t.Kind() {
	case reflect.Float64:
		r.most = 1e9
	case reflect.Uint64:
		r.least, r.most = 1, math.MaxUint64
	default:
		r.least, r.most = 1, 1<<24
	}
	for word := range strings.SplitSeq(tag.Get("want"), ",") {
		m := rangeForm.FindStringSubmatch(word)
		switch {
		case word == "":
		case word == "optional":
			r.optional = true
		case word == "ascending":
			r.ascending = true
		case strings.HasPrefix(word, "first="):
			r.first = word[len("first="):]
		case word == "key":
			r.key = true
		case word == "none":
			r.none = true
		case word == "shown":
			r.shown = true
		case word == "partial":
			r.partial = true
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

// field is a key from which a struct is decoded.
type field struct {
	name string
	of   reflect.Type
	rule
}

// fieldsOf returns the keys from which a struct is decoded.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			fields = append(fields, fieldsOf(f.Type)...)
		case name == "-" || !f.IsExported():
		default:
			fields = append(fields, field{cmp.Or(name, strings.ToLower(f.Name)), f.Type, ruleOf(f.Tag, f.Type)})
		}
	}
	return fields
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
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); options == "inline" || name != "-" && f.IsExported() {
				all = append(all, wordsOf(v.Field(i), word, ruleOf(f.Tag, f.Type).word == word)...)
			}
		}
	case reflect.String:
		if is && v.String() != "" {
			all = append(all, v.String())
		}
	}
	return all
}

func fieldNames(fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// The maximum numbers of values and of list entries in a document.
const (
	maxValues  = 100_000
	maxEntries = 1000
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

// text checks a value and returns it in a normal form, by which entries of
// lists are compared; "" if it equals that of a missing field.
func (r *fieldReader) text(n *yaml.Node, t reflect.Type, rule rule, path []string) (text string, p *Problem) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.values++; r.values > maxValues {
		return "", problem(n, path, fmt.Errorf("more than %d values: want fewer", maxValues))
	}
	fail := func(format string, args ...any) (string, *Problem) {
		return "", problem(n, path, fmt.Errorf(format, args...))
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case !rule.none || n.Kind != yaml.ScalarNode:
	case n.Value == "none":
		n.Tag, n.Value = "!!null", ""
		return "", nil
	default:
		return fail("%s: want %s", printable.Quoted(n.Value), r.wanted(t, rule))
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return fail("nothing: want %s", r.wanted(t, rule))
	}
	if own, ok := reflect.New(t).Interface().(yaml.Unmarshaler); ok {
		err := own.UnmarshalYAML(n)
		var want WantError
		if errors.As(err, &want) && n.Kind == yaml.ScalarNode {
			err = fmt.Errorf("%s: %w", printable.Quoted(n.Value), want)
		}
		if err != nil {
			return "", problem(n, path, err)
		}
		if n.Kind != yaml.ScalarNode {
			form, err := yaml.Marshal(n)
			if err != nil {
				return fail("%v", err)
			}
			return string(form), nil
		}
		return fmt.Sprintf("%q", n.Value), nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.fields(n, t, rule.partial, path)
	case reflect.Slice, reflect.Array:
		return r.list(n, t, rule, path)
	case reflect.Map:
		return r.entries(n, t, rule, path)
	}
	if n.Kind != yaml.ScalarNode {
		return fail("%s: want %s", kindText(n), r.wanted(t, rule))
	}
	v := reflect.New(t)
	tag := n.ShortTag()
	switch t.Kind() {
	case reflect.String:
		if err := n.Decode(v.Interface()); err != nil {
			return fail("%s: want %s", printable.Quoted(n.Value), r.wanted(t, rule))
		}
		s := v.Elem().String()
		switch {
		case s == "" && rule.optional:
			return "", nil
		case rule.word != "":
			if err := r.check(rule.word, s); err != nil {
				return "", problem(n, path, err)
			}
		case !isLine(s):
			return fail("%s: want %s", printable.Quoted(s), r.wanted(t, rule))
		}
		return strconv.Quote(s), nil
	case reflect.Bool:
		if tag != "!!bool" || n.Decode(v.Interface()) != nil {
			return fail("%s: want true or false", printable.Quoted(n.Value))
		}
		if !v.Elem().Bool() {
			return "", nil
		}
		return "true", nil
	case reflect.Float64:
		x := 0.0
		if tag != "!!int" && tag != "!!float" || n.Decode(&x) != nil || !rule.takes(x) {
			return fail("%s: want %s", printable.Quoted(n.Value), r.wanted(t, rule))
		}
		return nonZero(strconv.FormatFloat(x, 'g', -1, 64)), nil
	}
	if tag != "!!int" || n.Decode(v.Interface()) != nil {
		return fail("%s: want %s", printable.Quoted(n.Value), r.wanted(t, rule))
	}
	if x := v.Elem(); x.CanInt() && !rule.takes(float64(x.Int())) || x.CanUint() && !rule.takes(float64(x.Uint())) {
		return fail("%s: want %s", printable.Quoted(n.Value), r.wanted(t, rule))
	}
	return nonZero(fmt.Sprint(v.Elem().Interface())), nil
}

// nonZero returns the text of a number, "" for 0.
func nonZero(s string) string {
	if s == "0" || s == "-0" {
		return ""
	}
	return s
}

// takes reports whether a number is in range.
func (r rule) takes(x float64) bool {
	return (x > r.least || x == r.least && !r.above) && x <= r.most
}

// fields checks a mapping against a struct; if partial, one of which any field may be missing.
func (r *fieldReader) fields(n *yaml.Node, t reflect.Type, partial bool, path []string) (string, *Problem) {
	fields := fieldsOf(t)
	for i := range fields {
		fields[i].partial = fields[i].partial || partial
	}
	if n.Kind != yaml.MappingNode {
		return "", problem(n, path, fmt.Errorf("%s: want keys and values: %s", kindText(n), fieldNames(fields)))
	}
	texts := make([]string, len(fields))
	seen := make([]bool, len(fields))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		switch {
		case at < 0:
			return "", problem(key, path, fmt.Errorf("unknown field %s: want %s", plainKey(key.Value), fieldNames(fields)))
		case seen[at]:
			return "", problem(key, path, fmt.Errorf("field %s is there twice: want it once", key.Value))
		}
		seen[at] = true
		var p *Problem
		if texts[at], p = r.text(n.Content[i+1], fields[at].of, fields[at].rule, below(path, key.Value)); p != nil {
			return "", p
		}
	}
	var all strings.Builder
	for i, f := range fields {
		if !seen[i] && f.needed() {
			return "", problem(n, path, fmt.Errorf("no %s: want %s", f.name, r.wanted(f.of, f.rule)))
		}
		if texts[i] != "" {
			fmt.Fprintf(&all, "%s: %s, ", f.name, texts[i])
		}
	}
	if all.Len() == 0 {
		return "", nil
	}
	return "{" + all.String() + "}", nil
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
func (r *fieldReader) list(n *yaml.Node, t reflect.Type, rule rule, path []string) (string, *Problem) {
	switch {
	case n.Kind != yaml.SequenceNode:
		return "", problem(n, path, fmt.Errorf("%s: want %s", kindText(n), r.wanted(t, rule)))
	case t.Kind() == reflect.Array && len(n.Content) != t.Len():
		return "", problem(n, path, fmt.Errorf("%d entries: want %d", len(n.Content), t.Len()))
	case len(n.Content) == 0 && !rule.optional:
		return "", problem(n, path, errors.New("an empty list: want at least one entry"))
	case len(n.Content) > maxEntries:
		return "", problem(n, path, fmt.Errorf("%d entries: want at most %d", len(n.Content), maxEntries))
	}
	if p := rule.inOrder(n, path); p != nil {
		return "", p
	}
	rule.optional = false
	element := t.Elem()
	for element.Kind() == reflect.Pointer {
		element = element.Elem()
	}
	var keys []string
	if _, ok := reflect.New(element).Interface().(yaml.Unmarshaler); !ok && element.Kind() == reflect.Struct {
		for _, f := range fieldsOf(element) {
			if f.key {
				keys = append(keys, f.name)
			}
		}
	}
	var all strings.Builder
	seen := map[string]int{}
	for i, entry := range n.Content {
		here := below(path, strconv.Itoa(i))
		text, p := r.text(entry, element, rule, here)
		if p != nil {
			return "", p
		}
		what := "this entry"
		identity := text
		if len(keys) > 0 {
			identity, what = keyTexts(entry, keys), "an entry of this "+strings.Join(keys, " and ")
		}
		if first, twice := seen[identity]; twice && t.Kind() != reflect.Array {
			return "", problem(entry, here, fmt.Errorf("%s is there already, as entry %d: want each once", what, first))
		}
		seen[identity] = i
		all.WriteString(text + ", ")
	}
	if len(n.Content) == 0 {
		return "", nil
	}
	return "[" + all.String() + "]", nil
}

// inOrder checks the order of a list's numbers. What is no number is refused as an entry.
func (r rule) inOrder(n *yaml.Node, path []string) *Problem {
	if r.first != "" && len(n.Content) > 0 && n.Content[0].Value != r.first {
		return problem(n.Content[0], below(path, "0"), fmt.Errorf("%s: want %s first", printable.Quoted(n.Content[0].Value), r.first))
	}
	before := math.Inf(-1)
	for i, entry := range n.Content {
		x := 0.0
		if !r.ascending || entry.Decode(&x) != nil {
			break
		}
		if x <= before {
			return problem(entry, below(path, strconv.Itoa(i)), fmt.Errorf("%s: want more than the one before, in ascending order", printable.Quoted(entry.Value)))
		}
		before = x
	}
	return nil
}

// keyTexts returns the values of some fields of an entry that has been checked.
func keyTexts(n *yaml.Node, keys []string) (text string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for _, key := range keys {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if value := n.Content[i+1]; n.Content[i].Value == key {
				var x any
				if value.Decode(&x) != nil {
					x = value.Value
				}
				text += fmt.Sprintf("%s: %v, ", key, x)
			}
		}
	}
	return text
}

// entries checks a mapping with arbitrary keys.
func (r *fieldReader) entries(n *yaml.Node, t reflect.Type, rule rule, path []string) (string, *Problem) {
	switch {
	case n.Kind != yaml.MappingNode:
		return "", problem(n, path, fmt.Errorf("%s: want %s", kindText(n), r.wanted(t, rule)))
	case len(n.Content) == 0 && !rule.optional:
		return "", problem(n, path, errors.New("no entry: want at least one"))
	case len(n.Content) > 2*maxEntries:
		return "", problem(n, path, fmt.Errorf("%d entries: want at most %d", len(n.Content)/2, maxEntries))
	}
	rule.optional = false
	all := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		keys := ruleOf("", t.Key())
		if t.Key().Kind() == reflect.String {
			keys.word = "name"
		}
		name, p := r.text(key, t.Key(), keys, path)
		if p != nil {
			return "", p
		}
		if _, twice := all[name]; twice {
			return "", problem(key, path, fmt.Errorf("%s is there twice: want it once", key.Value))
		}
		if all[name], p = r.text(n.Content[i+1], t.Elem(), rule, below(path, key.Value)); p != nil {
			return "", p
		}
	}
	return fmt.Sprint(all), nil // in the order of keys
}

// below returns the path of the value under a key.
func below(path []string, key string) []string { return append(slices.Clone(path), key) }

// problem returns an error about a node.
func problem(n *yaml.Node, path []string, err error) *Problem {
	return &Problem{Path: path, Err: err, at: n}
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
			err := r.check(rule.word, "")
			if _, after, ok := strings.Cut(err.Error(), ": want "); ok {
				return after
			}
		}
		return fmt.Sprintf("a line of text without control characters, at most %d long", maxLine)
	}
	what := "a whole number"
	if t.Kind() == reflect.Float64 {
		what = "a number"
	}
	if t.Kind() == reflect.Uint64 {
		return what + " of 1 or more"
	}
	ends := "from " + rangeEnd(rule.least)
	if rule.above {
		ends = "above " + rangeEnd(rule.least)
	}
	return fmt.Sprintf("%s %s to %s", what, ends, rangeEnd(rule.most))
}

// rangeEnd formats an end of a range, without an exponent if it is short.
func rangeEnd(x float64) string { return strconv.FormatFloat(x, 'g', 10, 64) }

// maxLine is the maximum length of a text, in bytes.
const maxLine = 4000

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
