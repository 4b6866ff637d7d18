package gettext

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxText is the maximum length of either side of a message in bytes.
	MaxText = 2000
	// MinWords is the minimum number of words of an English sentence. Once it
	// is cleaned, only words with a letter count.
	MinWords = 3
)

// clean returns a message's text without markup and mnemonics, with single
// spaces between words. It returns false for one that is left out.
func clean(text string) (string, bool) {
	if !printable(text) || len(text) > MaxText {
		return "", false
	}
	text, ok := withoutMarkup(text)
	if !ok || strings.ContainsAny(text, "%{$@") && placeholder.MatchString(text) {
		return "", false
	}
	text = strings.Join(strings.Fields(withoutMnemonic(text)), " ")
	return text, strings.ContainsFunc(text, unicode.IsLetter) && printable(text) // entities may stand for anything
}

// printable reports whether a text is UTF-8 without control characters other
// than white space.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r)
	})
}

var (
	tag    = regexp.MustCompile(`</?([A-Za-z][\w-]*)[^<>]*>`)
	block  = set("br dd div dl dt h1 h2 h3 h4 h5 h6 hr item li list note ol p para pre row table td title tr ul warning")
	inline = set("a acronym application b bcode big body center cite code command dfn em email emphasis envar filename font " +
		"guibutton guiicon guilabel guimenu guimenuitem guisubmenu head html i icode img interface kbd keycap keycombo link " +
		"literal message nobr numid option q qt replaceable resource s samp shortcut small span strong sub sup tbody th tt u ulink userinput var")
	entity = regexp.MustCompile(`&[A-Za-z][\w.-]*;`)
)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}

// withoutMarkup removes the tags of HTML, Pango, DocBook and KDE's markup, and
// replaces entities by their characters. It returns false if there are other
// tags or entities, which stand for something that the text lacks.
func withoutMarkup(text string) (string, bool) {
	ok := true
	if strings.Contains(text, "<") {
		text = tag.ReplaceAllStringFunc(text, func(t string) string {
			switch name := strings.ToLower(tag.FindStringSubmatch(t)[1]); {
			case block[name]:
				return " "
			case inline[name]:
				return ""
			}
			ok = ok && strings.ContainsAny(t, ":@") // an address
			return t
		})
	}
	if strings.Contains(text, "&") && strings.Contains(text, ";") {
		text = html.UnescapeString(text)
		ok = ok && !entity.MatchString(text)
	}
	return text, ok
}

// placeholder matches what programs fill in: conversions of printf, also with a
// position (%1$s), a name (%(file)s) or in brackets of GCC's messages (%<, %qs);
// arguments of Qt (%1) and Boost (%1%); names in braces, {0} and ${name};
// variables of a shell and of autoconf (@name@). A space is no flag, as in "50%
// of".
var placeholder = regexp.MustCompile(`%(?:\d+\$)?[-+#0'I]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh?|ll?|[LqjztZ])?[diouxXeEfFgGaAcspnSCDEKTm%]|%[<>(]|%L?\d|\{[^{}]*\}|\$[A-Za-z_]|@\w+@`)

// apart matches a mnemonic beside a text whose script has no keys, as in
// "ファイル(_F)".
var apart = regexp.MustCompile(`\s*\([_&]\w\)`)

// withoutMnemonic removes the mark before the letter that is a label's key, _
// (GTK) or & (Qt, Windows), if the text has a single one; && stands for &. A
// mark between capitals, as in LC_ALL or AT&T, is part of a name.
func withoutMnemonic(text string) string {
	if !strings.ContainsAny(text, "_&") {
		return text
	}
	text = apart.ReplaceAllString(text, "")
	for _, mark := range []string{"_", "&"} {
		before, after, found := strings.Cut(text, mark)
		if !found || strings.Contains(after, mark) {
			continue
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if (unicode.IsLetter(next) || unicode.IsDigit(next)) && !(unicode.IsUpper(last) && unicode.IsUpper(next)) {
			text = before + after
		}
	}
	return strings.ReplaceAll(text, "&&", "&")
}

// words counts the words with a letter.
func words(text string) int {
	n := 0
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, unicode.IsLetter) {
			n++
		}
	}
	return n
}

// fold returns what texts have in common that differ only in case, punctuation
// and spaces.
func fold(text string) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
