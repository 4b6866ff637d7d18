package claims_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/claims"
)

// excerpt takes some columns of a table that was written as Markdown, all if
// none are named, with its title, where the rest is, its verdict and its origin.
func excerpt(text, columns, links string) (string, error) {
	var title string
	var rows [][]string
	var notes []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			title = line[len("## "):]
		case strings.HasPrefix(line, "|"):
			rows = append(rows, cellsOf(line))
		case strings.HasPrefix(line, "Verdict: "), strings.HasPrefix(line, "Measured ") && len(rows) > 0:
			notes = append(notes, line)
		}
	}
	if title == "" || len(rows) < 3 {
		return "", fmt.Errorf("%s: no table with a title", links)
	}
	keep, err := chosen(rows[0], columns)
	if err != nil {
		return "", fmt.Errorf("%s: %w", links, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** (%s)\n\n", title, links)
	for n, row := range rows {
		b.WriteString("|")
		for _, i := range keep {
			if n == 1 { // a rule that says where a column stands
				row[i] = shortRule.ReplaceAllString(row[i], "--")
			}
			b.WriteString(" " + row[i] + " |")
		}
		b.WriteString("\n")
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "\n<sub>%s</sub>\n", note)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

var shortRule = regexp.MustCompile(`-{2,}`)

// cellsOf splits a line of a Markdown table.
func cellsOf(line string) (cells []string) {
	const bar = "\x00"
	line = strings.ReplaceAll(line, `\|`, bar)
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), bar, `\|`))
	}
	return cells
}

// chosen finds columns by their names.
func chosen(head []string, columns string) (keep []int, err error) {
	if columns == "" {
		for i := range head {
			keep = append(keep, i)
		}
		return keep, nil
	}
	for name := range strings.SplitSeq(columns, "; ") {
		i := slices.IndexFunc(head, func(h string) bool { return lab.Slug(h) == lab.Slug(name) })
		if i < 0 {
			return nil, fmt.Errorf("no column %q: want some of %s", name, strings.Join(head, "; "))
		}
		keep = append(keep, i)
	}
	return keep, nil
}

func TestExcerpt(t *testing.T) {
	table := &lab.Table{
		ID: "sample", Title: "A sample", Caption: []string{"Measured as a|b."},
		Notes: []string{"Verdict: yes.", "Another note.", "Measured then."},
	}
	table.Texts("what")
	table.Numbers("measured", "95%", "modelled")
	table.Add("a|b", 1, "x", 2)
	var b strings.Builder
	testkit.NoError(t, table.Write(&b, "markdown"))
	got := testkit.Must(excerpt(b.String(), "what; modelled; 95%", "[notes](there.md)"))(t)
	want := `**A sample** ([notes](there.md))

| what | modelled | 95% |
`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "| a\\|b | 2 | x |\n\n<sub>Verdict: yes.</sub>\n\n<sub>Measured then.</sub>") {
		t.Error(got)
	}
	testkit.Refused(excerpt(b.String(), "what; meant", "[notes](there.md)"))(t, `no column "meant"`)
	for text, want := range map[string]string{
		"<!-- claims -->\n": "README.md:1: no <!-- end -->",
		"a\n<!-- end -->":   "README.md:2: an end without",
		"<!-- table: none -->\n<!-- table: none -->\n<!-- end -->": "README.md:2: a marker within",
	} {
		_, err := document{name: "README.md", from: []directory{{results: "../../results/reference"}}, verdicts: &claims.Verification{}}.regenerate(text)
		testkit.FailsFirst(t, err, want)
	}
	there := "<!-- table: none -->\n\n" + notThere + "\n\n<!-- end -->\nend"
	testkit.Equal(t, testkit.Must((document{from: []directory{{results: t.TempDir()}}}).regenerate("<!-- table: none -->\nold\n<!-- end -->\nend"))(t), there)
}
