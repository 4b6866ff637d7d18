package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

// TestData: what the rules leave out, what is kept and how it is split add up, in
// every format.
func TestData(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"fr": 300, "sr@latin": 90, "en_GB": 5, "xx": 1})
	args := []string{"data", "gettext:" + dir}
	status, stdout, stderr := execute(t, append(args, "--format", "csv")...)
	if status != 0 || stderr != "" {
		t.Fatalf("exit status %d, %s", status, stderr)
	}
	rows := testkit.Must(csv.NewReader(strings.NewReader(stdout)).ReadAll())(t)
	var names []string
	for _, row := range rows[1:] {
		names = append(names, row[0])
		cell := func(column string) int {
			n, err := strconv.Atoi(row[slices.Index(rows[0], column)])
			testkit.Equal(t, err, nil, "%s of %s", column, row[0])
			return n
		}
		left := 0
		for _, rule := range []string{"no-text", "long", "placeholder", "short", "untranslated", "repeated"} {
			left += cell(rule)
		}
		if cell("sentences") != left+cell("pairs") || cell("pairs") != cell("to-train-on")+cell("held-out")+cell("spare") || cell("messages") < cell("sentences") {
			t.Errorf("%v does not add up", row)
		}
		testkit.Equal(t, cell("pairs"), map[string]int{"fr": 300, "sr@latin": 90, "xx": 1, "all": 391}[row[0]], "%s: pairs", row[0])
	}
	testkit.EqualAll(t, names, []string{"fr", "sr@latin", "xx", "all"}, "languages")
	status, stdout, _ = execute(t, args...)
	for _, want := range []string{"3 languages with 300 different English sentences", "nothing on one side of the split: xx.", "as they are English: en_GB."} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit status %d: no %q in\n%s", status, want, stdout)
		}
	}
	status, stdout, _ = execute(t, append(args, "--json")...)
	if m := keys(t, stdout, "columns", "rows", "notes"); status != 0 || len(m["rows"].([]any)) != 4 {
		t.Errorf("exit status %d, %s", status, stdout)
	}
}

// TestTrainGettext: from catalogs to BLEU by language and translations, in both
// directions; saved weights are of their vocabularies.
func TestTrainGettext(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"fr": 300, "pt_BR": 120, "sr@latin": 60})
	for _, more := range []string{"", "--from-english", "--from-english --tied all --vocab 120", "--temperature 5 -k 2"} {
		out := t.TempDir()
		weights, translations := filepath.Join(out, "w.safetensors"), filepath.Join(out, "t.csv")
		args := slices.Concat([]string{"train", "--json", "--data", "gettext:" + dir, "--save", weights, "--translations", translations}, tinyTranslator, strings.Fields(more))
		status, stdout, stderr := execute(t, args...)
		if status != 0 || !strings.Contains(stderr, "pt_BR") {
			t.Fatalf("%s: exit status %d, %s", more, status, stderr)
		}
		eval := keys(t, stdout, "weights_sha256", "eval", "baselines")["eval"].(map[string]any)
		languages := eval["languages"].([]any)
		if _, ok := eval["bleu"]; !ok || len(languages) != 3 {
			t.Errorf("%s: eval %v", more, eval)
		}
		heldOut := 0.0
		for _, l := range languages {
			heldOut += l.(map[string]any)["held_out"].(float64)
		}
		raw := testkit.Must(os.ReadFile(translations))(t)
		rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
		if err != nil || len(rows) != 1+int(heldOut) || !strings.Contains(rows[1][1], map[bool]string{false: "fr", true: " "}[strings.Contains(more, "from-english")]) {
			t.Errorf("%s: %d lines of translations for %v held out, %v, %q", more, len(rows), heldOut, err, rows[1])
		}
		again := slices.Concat([]string{"train", "--data", "gettext:" + dir, "--load", weights}, tinyTranslator, strings.Fields(more), []string{"--steps", "0"})
		if status, stdout, stderr := execute(t, again...); status != 0 || !strings.Contains(stdout, "sr@latin") {
			t.Errorf("%s, loaded: exit status %d, %s%s", more, status, stdout, stderr)
		}
		fewer := slices.Concat([]string{"train", "--data", "gettext:" + dir + ",sr@latin", "--load", weights}, tinyTranslator, strings.Fields(more), []string{"--steps", "0"})
		fails(t, 1, "vocabulary", fewer...)
	}
}

// TestTrainManyLanguages: more languages than fit into a line are summed up.
func TestTrainManyLanguages(t *testing.T) {
	sizes := map[string]int{"small": 80, "xx": 1}
	for _, language := range strings.Fields("b c d e f g h i") {
		sizes[language] = 90
	}
	dir := gettexttest.Folder(t, sizes)
	status, stdout, stderr := execute(t, slices.Concat([]string{"train", "--data", "gettext:" + dir}, tinyTranslator)...)
	line, _, _ := strings.Cut(stderr[max(strings.Index(stderr, "gettext:"), 0):], "\n")
	if status != 0 || !strings.Contains(line, ": 9 languages, ") || !strings.HasSuffix(line, " in small; too few to train on: xx") || strings.Count(stdout, "\n  ") < 9 {
		t.Errorf("exit status %d, %q\n%s%s", status, line, stdout, stderr)
	}
}
