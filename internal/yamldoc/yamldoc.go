// Package yamldoc reads files of exactly one YAML document, and checks them
// against Go types.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Parse reads the only document of a text and returns its content, or nil if it
// is empty. Every error is one line that begins with file:line:column. For text
// that is not YAML the column is 1, since the parser reports only the line.
func Parse(file string, text []byte) (*yaml.Node, error) {
	if line, column, ok := notUTF8(text); ok {
		return nil, fmt.Errorf("%s:%d:%d: a byte that is not UTF-8: want YAML in UTF-8", file, line, column)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if err := d.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(file, err)
	}
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntax(file, err)
	default:
		at := &second
		if len(second.Content) > 0 {
			at = second.Content[0]
		}
		return nil, fmt.Errorf("%s:%d:%d: a second document: want one in a file", file, max(at.Line, 1), max(at.Column, 1))
	}
	if len(first.Content) == 0 {
		return nil, nil
	}
	if n := binary(first.Content[0]); n != nil {
		return nil, fmt.Errorf("%s:%d:%d: bytes in base64: want text or a number", file, n.Line, n.Column)
	}
	return first.Content[0], nil
}

// binary is a node that is tagged as bytes in base64, or nil.
func binary(n *yaml.Node) *yaml.Node {
	if n.Tag == "!!binary" {
		return n
	}
	for _, c := range n.Content {
		if found := binary(c); found != nil {
			return found
		}
	}
	return nil
}

// notUTF8 finds the first byte that is not UTF-8.
func notUTF8(text []byte) (line, column int, found bool) {
	line, column = 1, 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			return line, column, true
		}
		if text, column = text[size:], column+1; r == '\n' {
			line, column = line+1, 1
		}
	}
	return 0, 0, false
}

var position = regexp.MustCompile(`^(?:line (\d+): )?`)

// syntax returns the error for text that is not YAML, in the parser's words.
func syntax(file string, err error) error {
	said, line := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "), "1"
	if m := position.FindStringSubmatch(said); m[1] != "" {
		said, line = said[len(m[0]):], m[1]
	}
	return fmt.Errorf("%s:%s:1: %s: want YAML", file, line, said)
}

// Read decodes the only document of a text into a value, after it has checked every field against
// its type and tag. It returns the document, in which a [Problem] has its place. Every error starts
// with file:line:column.
func Read(file string, text []byte, into any, words Vocabularies) (root *yaml.Node, err error) {
	if root, err = Parse(file, text); err != nil {
		return nil, err
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	}
	if p := (&fieldReader{words: words}).value(root, reflect.TypeOf(into), rule{}, nil); p != nil {
		return nil, p.Located(file, root)
	}
	if err := root.Decode(into); err != nil {
		return nil, fmt.Errorf("%s:1:1: %s", file, strings.Join(strings.Fields(err.Error()), " "))
	}
	return root, nil
}

// Decode is Read and, unless it is nil, a check of the value.
func Decode(file string, text []byte, into any, words Vocabularies, check func() *Problem) error {
	root, err := Read(file, text, into, words)
	if err != nil || check == nil {
		return err
	}
	return check().Located(file, root)
}

// Problem is an invalid value and its place.
type Problem struct {
	Path []string
	Err  error
	at   *yaml.Node // nil: the node at Path
}

// At makes a Problem of an error, or nil of nil.
func At(err error, path ...string) *Problem {
	if err == nil {
		return nil
	}
	return &Problem{Path: path, Err: err}
}

// In prepends keys to the path of a problem.
func (p *Problem) In(path ...string) *Problem {
	if p != nil {
		p.Path = append(path, p.Path...)
	}
	return p
}

// Located returns the problem as an error of one line, starting with
// file:line:column; nil of nil.
func (p *Problem) Located(file string, root *yaml.Node) error {
	if p == nil {
		return nil
	}
	n := p.at
	if n == nil {
		n = NodeAt(root, p.Path, false)
	}
	where := ""
	if len(p.Path) > 0 {
		where = strings.Join(p.Path, ".") + ": "
	}
	// Drop the type of the error: a bad file is not a misuse of the program,
	// even if the same value in a flag would be.
	return fmt.Errorf("%s:%d:%d: %s%v", file, n.Line, n.Column, where, p.Err)
}

// NodeAt returns the node to which a path of keys and indices leads, or the
// last existing node on the way. For a value under a key it returns the key,
// unless value is set.
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
