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
		if got, rule := clean(text); got != want || rule != kept {
			t.Errorf("%q becomes %q (%d), want %q", text, got, rule, want)
		}
	}
	long := make([]byte, MaxText+1)
	for i := range long {
		long[i] = 'x'
	}
	for text, want := range map[string]Rule{
		"":                           NoText,
		"1 + 1 = 2":                  NoText,
		"<b></b>":                    NoText,
		"bad \xff byte":              NoText,
		"a \uFFFD here":              NoText,
		"a bell \a here":             NoText,
		"a bell &#7; here":           NoText,
		string(long):                 Long,
		"cannot open %s":             Placeholder,
		"%-10.3lf of %1$s":           Placeholder,
		"%d%% done":                  Placeholder,
		"in %'d files":               Placeholder,
		"of %(name)s":                Placeholder,
		"unknown type %qT":           Placeholder,
		"%<const%> is missing":       Placeholder,
		"Copy %1 to %2":              Placeholder,
		"Copy %L1":                   Placeholder,
		"Hello {name}":               Placeholder,
		"value of ${HOME}":           Placeholder,
		"value of $HOME":             Placeholder,
		"in @prefix@":                Placeholder,
		"usage: mount <device>":      Placeholder,
		"welcome to &appname; today": Placeholder,
	} {
		if got, rule := clean(text); rule != want || got != "" {
			t.Errorf("%q becomes %q (%d), want rule %v", text, got, rule, want)
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
