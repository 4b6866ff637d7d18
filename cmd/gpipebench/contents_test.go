package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Long documents begin with their contents: a link to each section, in order.
func TestContents(t *testing.T) {
	link := regexp.MustCompile(`\[([^\]]+)\]\(#([a-z0-9-]+)\)`)
	notInAnchor := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, name := range []string{"README.md", "docs/design.md", "docs/howto.md", "docs/tutorial.md"} {
		raw := testkit.Must(os.ReadFile(filepath.Join("..", "..", name)))(t)
		before, _, _ := strings.Cut(string(raw), "\n## ")
		var listed, sections []string
		for _, m := range link.FindAllStringSubmatch(before, -1) {
			listed = append(listed, m[1])
			testkit.Equal(t, m[2], strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"), "%s: the link to %s leads to", name, m[1])
		}
		code := false
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if heading, ok := strings.CutPrefix(line, "## "); ok && !code {
				sections = append(sections, strings.TrimSpace(heading))
			}
		}
		testkit.EqualAll(t, sections, listed, "%s: contents %q, sections", name, listed)
	}
}

// The picture of the architecture names folders that there are.
func TestArchitectureNamesFolders(t *testing.T) {
	raw := testkit.Must(os.ReadFile(filepath.Join("..", "..", "docs", "architecture.svg")))(t)
	named := regexp.MustCompile(`class="package"[^>]*>([^<]*)<`).FindAllStringSubmatch(string(raw), -1)
	if len(named) < 10 {
		t.Errorf("only %d boxes name folders", len(named))
	}
	for _, m := range named {
		for _, folder := range strings.Split(m[1], ", ") {
			if st, err := os.Stat(filepath.Join("..", "..", folder)); err != nil || !st.IsDir() {
				t.Errorf("the picture names %q: %v", folder, err)
			}
		}
	}
}
