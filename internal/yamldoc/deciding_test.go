package yamldoc

import (
	"testing"

	"gpipebench/internal/testkit"
)

// The form of a document does not matter, nor what is shown or skipped; each value and
// the order of a list do.
func TestDeciding(t *testing.T) {
	type part struct {
		Size int    `yaml:"size"`
		Note string `yaml:"note" want:"shown,optional"`
	}
	var doc struct {
		Title string          `yaml:"title" want:"shown"`
		Seed  int             `yaml:"seed"`
		Parts []part          `yaml:"parts"`
		Of    map[string]part `yaml:"of"`
	}
	read := func(text string) string {
		return Deciding([]byte(text), &doc, func(path []string) bool { return len(path) == 2 && path[0] == "of" && path[1] != "quick" })
	}
	want := "of/quick/size: 3\nparts/-/size: 1\nparts/-/size: 2\nseed: 7\n"
	for _, same := range []string{
		"title: a\nseed: 7\nparts: [{size: 1}, {size: 2}]\nof: {quick: {size: 3}, full: {size: 9}}\n",
		"# a comment\nseed: '7'\ntitle: b\nof:\n  full: {size: 8}\n  quick: {note: n, size: 3}\nparts:\n  - {size: 1, note: m}\n  - size: 2\n",
		"seed: 7\ntitle: a\nparts: [&x {size: 1}, {size: 2}]\nof: {quick: {size: 3}, full: *x}\n",
	} {
		testkit.Equal(t, read(same), want, "%q", same)
	}
	for _, other := range []string{
		"title: a\nseed: 8\nparts: [{size: 1}, {size: 2}]\nof: {quick: {size: 3}}\n",
		"title: a\nseed: 7\nparts: [{size: 2}, {size: 1}]\nof: {quick: {size: 3}}\n",
		"title: a\nseed: 7\nparts: [{size: 1}, {size: 2}]\nof: {quick: {size: 4}}\n",
		"title: a\nseed: 7\nparts: [{size: 1}]\nof: {quick: {size: 3}}\n",
	} {
		if got := read(other); got == want {
			t.Errorf("%q: %q, like another document", other, got)
		}
	}
}
