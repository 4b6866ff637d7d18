package gettext

import (
	"testing"

	"gpipebench/internal/testkit"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"  Open\n the\tfile ":                      "Open the file",
		"_Open the file...":                        "Open the file...",
		"Save file &as":                            "Save file as",
		"E_xit now && here":                        "Exit now & here",
		"AT&T and LC_ALL stay":                     "AT&T and LC_ALL stay",
		"both_of these_stay":                       "both_of these_stay",
		"ファイルを開く(_O)...":                           "ファイルを開く...",
		"保存(&S)":                                   "保存",
		"Alain & Co":                               "Alain & Co",
		"<b>Bold</b> and <i class=\"x\">more</i>":  "Bold and more",
		"<p>One</p><p>two<br/>three</p>":           "One two three",
		"<qt>Is <filename>this</filename> ok</qt>": "Is this ok",
		"Report bugs to <bug@gnu.org>":             "Report bugs to <bug@gnu.org>",
		"a &lt; b &amp; c":                         "a < b & c",
		"1 < 2 holds":                              "1 < 2 holds",
		"100% of 50%":                              "100% of 50%",
		"in {braces":                               "in {braces",
		"costs $ 5 each":                           "costs $ 5 each",
	} {
		if got, ok := clean(text); got != want || !ok {
			t.Errorf("%q becomes %q, %v, want %q", text, got, ok, want)
		}
	}
	long := make([]byte, MaxText+1)
	for i := range long {
		long[i] = 'x'
	}
	for _, text := range []string{
		"", "1 + 1 = 2", "<b></b>", "bad \xff byte", "a \uFFFD here", "a bell \a here", "a bell &#7; here",
		string(long), "cannot open %s", "%-10.3lf of %1$s", "%d%% done", "in %'d files", "of %(name)s",
		"unknown type %qT", "%<const%> is missing", "Copy %1 to %2", "Copy %L1", "Hello {name}", "value of ${HOME}",
		"value of $HOME", "in @prefix@", "usage: mount <device>", "welcome to &appname; today",
	} {
		if got, ok := clean(text); ok {
			t.Errorf("%q becomes %q, want it left out", text, got)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]int{"": 0, "- 1 -": 0, "one": 1, " one, two - 3": 2, "C'est ça ici": 3} {
		testkit.Equal(t, words(text), want, "%q", text)
	}
}

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "...": "", "Open the File...": "open the file", "open, the  file": "open the file", "(Ünïcode) 3.5": "ünïcode 3 5", "日本": "日本",
	} {
		testkit.Equal(t, fold(text), want, "%q is folded to", text)
	}
}
