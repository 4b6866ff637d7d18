package yamldoc

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Deciding returns, as text, what a document says apart from its form: a line for each
// value with its path, in the order of the keys. Comments, the order of keys and quotes
// do not matter. It leaves out fields of the document's type that have the word shown,
// and what skip accepts, by its path. The document has been decoded into of.
func Deciding(text []byte, of any, skip func(path []string) bool) string {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		panic(err) // it has been decoded
	}
	var b strings.Builder
	deciding(&b, &root, reflect.TypeOf(of), nil, skip)
	return b.String()
}

func deciding(b *strings.Builder, n *yaml.Node, t reflect.Type, path []string, skip func([]string) bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n.Kind {
	case yaml.DocumentNode:
		deciding(b, n.Content[0], t, path, skip)
	case yaml.AliasNode:
		deciding(b, n.Alias, t, path, skip)
	case yaml.MappingNode:
		keys := make([]int, 0, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			keys = append(keys, i)
		}
		slices.SortFunc(keys, func(i, j int) int { return strings.Compare(n.Content[i].Value, n.Content[j].Value) })
		for _, i := range keys {
			key := n.Content[i].Value
			of, shown := entry(t, key)
			if at := below(path, key); !shown && !skip(at) {
				deciding(b, n.Content[i+1], of, at, skip)
			}
		}
	case yaml.SequenceNode:
		var of reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			of = t.Elem()
		}
		for _, e := range n.Content {
			deciding(b, e, of, below(path, "-"), skip)
		}
	default:
		b.WriteString(strings.Join(path, "/") + ": " + n.Value + "\n")
	}
}

// entry is the type of a mapping's value, nil if it is unknown, and whether it is only
// shown.
func entry(t reflect.Type, key string) (of reflect.Type, shown bool) {
	switch {
	case t == nil:
	case t.Kind() == reflect.Map:
		return t.Elem(), false
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			if f.name == key {
				return f.of, f.shown
			}
		}
	}
	return nil, false
}
