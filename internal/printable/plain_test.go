package printable

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"":                         "",
		"plain, \"quoted\" Ä 世界\n": "plain, \"quoted\" Ä 世界\n",
		"red \x1b[31m":             `red \x1b[31m`,
		"\x00\x7f\u009b":           `\x00\x7f\u009b`,
		"bad \xff byte":            `bad \xff byte`,
		"turned \u202e round":      `turned \u202e round`,
		"over\rwritten":            `over\rwritten`,
	} {
		testkit.Equal(t, Text(s), want, "%q", s)
	}
	testkit.Equal(t, Line("one\ntwo\r\nthree\tfour\x07"), `one; two; three four\a`)
}

func TestShort(t *testing.T) {
	testkit.Equal(t, Short("short", 5), "short")
	got := Short("begin "+strings.Repeat("é", 100_000)+" end", 100)
	if !strings.HasPrefix(got, "begin ") || !strings.HasSuffix(got, " end") || len([]rune(got)) > 130 || !strings.Contains(got, "characters") {
		t.Errorf("%q", got)
	}
}

func TestFold(t *testing.T) {
	const text = "Delayed reduction: the same parameters, more activations"
	lines := Fold(text, func(line string) bool { return len(line) <= 16 })
	testkit.Equal(t, strings.Join(lines, "|"), "Delayed|reduction: the|same parameters,|more activations", "%q", lines)
	testkit.EqualAll(t, Fold("activations", func(string) bool { return false }), []string{"activations"}, "one word")
}
