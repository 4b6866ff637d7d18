package yamldoc

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Decode decodes the only document of a text, after it has held every field
// against what its type and tag allow, and runs check, unless it is nil. Every error
// starts with file:line:column.
func Decode(file string, text []byte, into any, words Vocabularies, check func() *Problem) error {
	root, err := Parse(file, text)
	if err != nil {
		return err
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	}
	if _, p := (&fieldReader{words: words}).text(root, reflect.TypeOf(into), rule{}, nil); p != nil {
		return p.Located(file, root)
	}
	if err := root.Decode(into); err != nil {
		return fmt.Errorf("%s:1:1: %s", file, strings.Join(strings.Fields(err.Error()), " "))
	}
	if check == nil {
		return nil
	}
	if p := check(); p != nil {
		return p.Located(file, root)
	}
	return nil
}

// Problem is a value that is refused, and where it is.
type Problem struct {
	Path []string
	Err  error
	at   *yaml.Node // nil: where the path leads to
}

// At makes a problem of an error, if there is one.
func At(err error, path ...string) *Problem {
	if err == nil {
		return nil
	}
	return &Problem{Path: path, Err: err}
}

// In is a problem under further keys.
func (p *Problem) In(path ...string) *Problem {
	if p != nil {
		p.Path = append(path, p.Path...)
	}
	return p
}

// Located is the problem in one line, with file:line:column in front.
func (p *Problem) Located(file string, root *yaml.Node) error {
	n := p.at
	if n == nil {
		n = NodeAt(root, p.Path, false)
	}
	where := ""
	if len(p.Path) > 0 {
		where = strings.Join(p.Path, ".") + ": "
	}
	// A file's fault is no misuse of the program, also where a flag's would be.
	return fmt.Errorf("%s:%d:%d: %s%v", file, n.Line, n.Column, where, p.Err)
}

// NodeAt finds what a path of keys and indices leads to, or as much of it as is
// there. A value under a key is found at its key, unless it is itself asked for.
func NodeAt(n *yaml.Node, path []string, value bool) *yaml.Node {
	if n == nil {
		return &yaml.Node{Line: 1, Column: 1}
	}
	at := n
	for _, key := range path {
		var next *yaml.Node
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					at, next = n.Content[i], n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
				next = n.Content[i]
				at = next
			}
		}
		if next == nil {
			return at
		}
		n = next
	}
	if value {
		return n
	}
	return at
}
