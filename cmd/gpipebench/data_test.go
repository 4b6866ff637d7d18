package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

// TestTrainGettext: from catalogs to BLEU by language and translations; saved weights are of
// their vocabularies.
func TestTrainGettext(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"fr": 300, "pt_BR": 120, "sr@latin": 60})
	for more, only := range map[string]string{
		"": "", "--tied all --vocab 120 -k 3 -m 2": "", "--temperature 5 -k 2": "", "--tied --head-dim 4 --scaled-init --clip-logits 30": ",fr",
	} {
		out := t.TempDir()
		weights, translations := filepath.Join(out, "w.safetensors"), filepath.Join(out, "t.csv")
		args := slices.Concat([]string{"train", "--json", "--data", "gettext:" + dir + only, "--save", weights, "--translations", translations}, tinyTranslator, strings.Fields(more))
		stdout, stderr := succeeds(t, args...)
		testkit.Has(t, stderr, "fr 2")
		eval := keys(t, stdout, "weights_sha256", "eval", "baselines")["eval"].(map[string]any)
		languages := eval["languages"].([]any)
		for _, score := range []string{"bleu", "bleu_smoothed", "chrf"} {
			if of := languages[0].(map[string]any)[score]; of == nil || len(languages) != 3 && (len(languages) != 1 || eval[score] != of) {
				t.Errorf("%s: eval %v", more, eval)
			}
		}
		heldOut := 0.0
		for _, l := range languages {
			heldOut += l.(map[string]any)["held_out"].(float64)
		}
		raw := testkit.Must(os.ReadFile(translations))(t)
		rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
		if err != nil || len(rows) != 1+int(heldOut) || !strings.Contains(rows[1][1], "fr") {
			t.Errorf("%s: %d lines of translations for %v held out, %v, %q", more, len(rows), heldOut, err, rows[1])
		}
		again := slices.Concat([]string{"train", "--data", "gettext:" + dir + only, "--load", weights}, tinyTranslator, strings.Fields(more), []string{"--steps", "0"})
		stdout, _ = succeeds(t, again...)
		testkit.Has(t, stdout, ", 0 steps\n", "dictionary      BLEU smoothed     chrF\n")
		fewer := slices.Concat([]string{"train", "--data", "gettext:" + dir + ",sr@latin", "--load", weights}, tinyTranslator, strings.Fields(more), []string{"--steps", "0"})
		fails(t, 1, "vocabulary", fewer...)
		fails(t, 1, weights, append(again, "--dim", "32")...)
	}
}

// TestTrainManyLanguages: more languages than fit into a line are summed up.
func TestTrainManyLanguages(t *testing.T) {
	sizes := map[string]int{"small": 80, "xx": 1}
	for _, language := range strings.Fields("b c d e f g h i") {
		sizes[language] = 90
	}
	dir := gettexttest.Folder(t, sizes)
	stdout, stderr := succeeds(t, slices.Concat([]string{"train", "--data", "gettext:" + dir}, tinyTranslator)...)
	testkit.Has(t, stderr, ": 747 pairs to train on, 53 held out, 0 too long; by language: b 84, c 84, d 84, e 84, f 84, g 84, h 84, i 84 and 1 more; too few to train on: xx\n")
	if strings.Count(stdout, "\n  ") < 9 {
		t.Errorf("want a line for each language in\n%s", stdout)
	}
}
