package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"gpipebench/internal/testkit"
)

// A command's help fits a screen or two and the terminal, and every flag is in --help-all: of
// commands with many flags in one group.
func TestHelp(t *testing.T) {
	groups := map[string]int{}
	for _, g := range flagGroups {
		for _, name := range strings.Fields(g.common + " " + g.rare) {
			groups[name]++
		}
	}
	used := map[string]bool{}
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		if c.HasSubCommands() || c.Name() == "help" {
			continue
		}
		c.InitDefaultHelpFlag()
		for _, width := range []int{60, 80, 100} {
			short, full := helpOf(c, width, false), helpOf(c, width, true)
			if lines := strings.Count(short, "\n"); width == 100 && lines > 60 && !c.Hidden {
				t.Errorf("%s --help has %d lines at %d columns, want 60 at most:\n%s", c.Name(), lines, width, short)
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				used[f.Name] = true
				if n := strings.Count(full, "--"+f.Name+" "); n == 0 {
					t.Errorf("%s --help-all lacks --%s", c.Name(), f.Name)
				}
			})
			if c.Name() == "train" && (strings.Contains(short, "--zero-init") || !strings.Contains(short, "--layers") || !strings.Contains(short, "--help-all")) {
				t.Errorf("train --help shows rare flags, or lacks common ones:\n%s", short)
			}
		}
	}
	for name, n := range groups {
		if n != 1 || !used[name] {
			t.Errorf("--%s is in %d groups, of a command: %v; want each flag that there is in one", name, n, used[name])
		}
	}
}

// A misspelt command or flag is answered with the one that is meant, if one is near.
func TestMisspelt(t *testing.T) {
	for line, want := range map[string]string{
		"trainn":                    "did you mean train?",
		"desribe":                   "did you mean describe?",
		"help trian":                "did you mean train?",
		"frobnicate":                "want ablation, ",
		"train --lyers 2":           "did you mean --layers?",
		"train --microbatch":        "did you mean --micro-batches?",
		"train --checkpt":           "unknown flag: --checkpt (see",
		"plan --timeline":           "unknown flag: --timeline (see",
		"train --schedule dualpipe": "did you mean dualpipe-v?",
		"simulate --dtype BF16":     "did you mean bf16?",
	} {
		fails(t, 2, want, strings.Fields(line)...)
	}
}

// Patterns that no native reader would let pass (docs/CONTRIBUTING.md, Sentences): in comments, and
// the same and more in help and documents. A line may end within them.
var (
	unwritten = words(`so many|hangs on|is told of|who calls it|(is|are) (that|those) of`)
	unsaid    = words(unwritten.String() + `|of which|(that|those) of (the|a|an|its|one|others?|all)|is no (number|[a-z]+er)|there is none`)
)

func words(patterns string) *regexp.Regexp {
	return regexp.MustCompile(`\b(` + strings.ReplaceAll(patterns, " ", `\s+`) + `)\b`)
}

func TestSentences(t *testing.T) {
	const root = "../.."
	look := func(where, text string, patterns *regexp.Regexp) {
		for _, at := range patterns.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q", where, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]])
		}
	}
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		look("help of "+c.Name(), helpOf(c, 10_000, true), unsaid)
	}
	generated := regexp.MustCompile(`(?ms)^<!-- [a-z]+.*?^(<!-- end -->|-->)$`)
	blank := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no documents", err)
	}
	for _, name := range append(documents, root+"/README.md", root+"/ARTIFACT.md") {
		text := testkit.Must(os.ReadFile(name))(t)
		own := generated.ReplaceAllStringFunc(string(text), blank)
		own, _, _ = strings.Cut(own, "\n## Sentences\n") // which lists them
		look(name, own, unsaid)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "corpus", "results"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i := range lines { // comments alone
			_, lines[i], _ = strings.Cut(lines[i], "// ")
		}
		look(path, strings.Join(lines, "\n"), unwritten)
		return nil
	})
	testkit.NoError(t, err)
}
