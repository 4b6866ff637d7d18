// Package yamldoc reads files of exactly one YAML document, and checks them
// against Go types.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
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
