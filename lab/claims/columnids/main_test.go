package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRenamed(t *testing.T) {
	for text, want := range map[string]string{
		`1.5*cell("table2", "measured, cut", "K", 8, "M", {M}) > x("A B")`: `1.5*cell("table2", "measured-cut", "k", 8, "m", {M}) > x("A B")`,
		`cell("t", "links'' peak", "trained for", "as many steps")`:        `cell("t", "links-peak", "trained-for", "as many steps")`,
		`nth(2, "t", "gain (points)", "K", "{K}")`:                         `nth(2, "t", "gain-points", "k", "{K}")`,
		`every("T", "own within 10%", "Yes", "No", "Noisy")`:               `every("T", "own-within-10", "Yes", "No", "Noisy")`,
		`cell("t", "K={K}, M=32")`:                                         `cell("t", "k-{K}-m-32")`,
		`cell("t", "{column}, difference")`:                                `cell("t", "{column}-difference")`,
		`cell("t", "efficiency, {way}, as in Figure 5", "a", "b")`:         `cell("t", "efficiency-{way}-as-in-figure-5", "a", "b")`,
		`cell("{table}", "{column}", "95%", 1)`:                            `cell("{table}", "{column}", "95", 1)`,
		"<!-- table: table2 | K; theory, cut; 95% -->":                     "<!-- table: table2 | k; theory-cut; 95 -->",
	} {
		if got := renamed(text); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
		if again := renamed(want); again != want {
			t.Errorf("once more: %s", again)
		}
	}
}

// Claims and documents name columns by their IDs.
func TestFilesHaveIDs(t *testing.T) {
	for _, pattern := range []string{"../../../experiments/*/claims.yaml", "../../../docs/*.md", "../../../README.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if renamed(string(text)) != string(text) {
				t.Errorf("%s has heads of columns for their IDs: go run ./lab/claims/columnids %[1]s", name)
			}
		}
	}
}
