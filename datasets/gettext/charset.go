package gettext

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
)

var charsetField = regexp.MustCompile(`(?i)\bcharset=([\w.:+-]+)`)

// charsetOf returns the charset that a catalog's description names; "" if it
// names none, or has the template's placeholder.
func charsetOf(description []byte) string {
	m := charsetField.FindSubmatch(description)
	if m == nil || string(m[1]) == "CHARSET" {
		return ""
	}
	return string(m[1])
}

// decoder returns a function that converts a charset's texts to UTF-8; nil for
// a charset that it cannot convert. Bytes that the charset does not have become
// U+FFFD, in UTF-8 they stay.
func decoder(charset string) func([]byte) string {
	switch strings.ToUpper(charset) {
	case "", "UTF-8", "UTF8", "US-ASCII", "ASCII":
		return func(b []byte) string { return string(b) }
	}
	e, err := htmlindex.Get(charset) // by all names that browsers know
	if err != nil {
		return nil
	}
	d := e.NewDecoder()
	return func(b []byte) string {
		out, err := d.Bytes(b)
		if err != nil {
			return string(utf8.RuneError)
		}
		return string(out)
	}
}
