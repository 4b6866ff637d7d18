package yamldoc

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/printable"
)

// The maximum numbers of values in a document and of entries in a list whose tag says nothing
// else, and the maximum length of a text in bytes.
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
		if rule.null {
			return nil
		}
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

// fields checks a mapping against a struct; if partial, any field may be missing.
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
	own := reflect.New(f.of).Interface()
	if _, ok := own.(yaml.Unmarshaler); ok {
		_, optional := own.(yaml.IsZeroer)
		return !optional && f.of.Kind() != reflect.Pointer
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
	case len(n.Content) > rule.entries:
		return problem(n, path, "%d entries: want at most %d", len(n.Content), rule.entries)
	case rule.first != "" && len(n.Content) > 0 && n.Content[0].Value != rule.first:
		return problem(n.Content[0], below(path, "0"), "%s: want %s first", printable.Quoted(n.Content[0].Value), rule.first)
	}
	rule.optional, rule.null = false, false
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
	rule.optional, rule.null = false, false
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
