// Package printable makes texts fit to be printed: text from a file or a command
// line may contain characters that a terminal interprets, or be very long.
package printable

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text replaces characters that are not graphic, and bytes that are not UTF-8,
// by escapes like those of a Go string: \x1b, \u202e. Newlines and tabs stay.
func Text(s string) string {
	fine := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !fine(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if c := s[:n]; fine(r) && !(r == utf8.RuneError && n == 1) {
			b.WriteString(c)
		} else {
			q := strconv.Quote(c)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// Line is Text on one line: newlines become semicolons.
func Line(s string) string {
	if strings.ContainsAny(s, "\n\r\t") {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
		s = strings.ReplaceAll(s, "\t", " ")
	}
	return Text(s)
}

// Tag matches the beginning of an HTML tag.
var Tag = regexp.MustCompile(`<([A-Za-z/!?])`)

// Markdown returns Text as Markdown in which names of files or machines are not
// read as HTML.
func Markdown(s string) string { return Tag.ReplaceAllString(Text(s), "&lt;$1") }

// Fold breaks a text between words into lines that fit, or that are a single
// word.
func Fold(text string, fits func(line string) bool) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		longer := strings.TrimLeft(line+" "+word, " ")
		if line != "" && !fits(longer) {
			lines, longer = append(lines, line), word
		}
		line = longer
	}
	return append(lines, line)
}

// Short shortens a text to about most characters. It cuts the middle out of
// words longer than a quarter of that, and then out of the whole text, and
// marks each cut.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	words := strings.SplitAfter(s, " ")
	for i, w := range words {
		words[i] = cut(w, max(most/4, 20))
	}
	return cut(strings.Join(words, ""), most)
}

func cut(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	head, tail := most*2/3, most/4
	return string(r[:head]) + "[... " + strconv.Itoa(len(r)-head-tail) + " characters ...]" + string(r[len(r)-tail:])
}
