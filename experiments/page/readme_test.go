package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpipebench/experiments"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/experiments/units"
)

// No number in README.md is typed either: what stands between a marker and
// <!-- end --> is made of results/reference. Markers are
//
//	<!-- table: ID -->                    a table's columns, title and origin
//	<!-- table: ID | column; column -->   some columns
//	<!-- picture: FILE | what it shows -->
//	<!-- claims -->                       verdicts of verify by kind of claim
//	<!-- commands -->                     the experiments' commands, what each makes, and its last result
//
// After a change to the reference or to a marker, write them anew with
//
//	go test ./experiments/page -run TestREADME -update
func TestREADME(t *testing.T) {
	suitetest.RendersReference(t)
	name := filepath.Join("..", "..", "README.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := regenerate(string(text), filepath.Join("..", "..", "results", "reference"))
	if err != nil {
		t.Fatal(err)
	}
	if got == string(text) {
		return
	}
	if *suitetest.Update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i := range was {
		if i >= len(is) || was[i] != is[i] {
			t.Fatalf("README.md:%d is not what results/reference gives:\n%s\nwrite it anew: go test ./experiments/page -run TestREADME -update", i+1, was[i])
		}
	}
	t.Fatal("README.md lacks what results/reference gives; write it anew: go test ./experiments/page -run TestREADME -update")
}

var (
	readmeMarker = regexp.MustCompile(`^<!-- (table|picture|claims|commands)(?:: ([^|]+?))?(?: \| (.+?))? -->$`)
	readmeEnd    = "<!-- end -->"
)

// regenerate puts what a directory of results has between a text's markers.
func regenerate(text, dir string) (string, error) {
	var out []string
	open := 0 // the line of the marker that is not closed yet
	for i, line := range strings.Split(text, "\n") {
		m := readmeMarker.FindStringSubmatch(line)
		switch {
		case line == readmeEnd && open == 0:
			return "", fmt.Errorf("README.md:%d: an end without a marker", i+1)
		case line == readmeEnd:
			open = 0
		case m != nil && open > 0:
			return "", fmt.Errorf("README.md:%d: a marker within that of line %d: want %s before", i+1, open, readmeEnd)
		case m != nil:
			open = i + 1
			made, err := generated(m[1], m[2], m[3], dir)
			if err != nil {
				return "", fmt.Errorf("README.md:%d: %w", i+1, err)
			}
			out = append(out, line, "", made, "")
			continue
		case open > 0:
			continue
		}
		out = append(out, line)
	}
	if open > 0 {
		return "", fmt.Errorf("README.md:%d: no %s", open, readmeEnd)
	}
	return strings.Join(out, "\n"), nil
}

// generated is what belongs behind one marker.
func generated(kind, id, more, dir string) (string, error) {
	const path = "results/reference/tables/" // as a reader of README.md has it
	switch kind {
	case "claims":
		c, err := Reporting{Results: dir}.claims(context.Background())
		if err != nil {
			return "", err
		}
		return summarised(c.Summary.Table)
	case "commands":
		return commandsTable(dir, path)
	case "picture":
		_, err := os.Stat(filepath.Join(dir, "tables", id))
		if errors.Is(err, fs.ErrNotExist) {
			return notThere, nil
		}
		return fmt.Sprintf("![%s](%s)", more, path+id), err
	}
	text, err := os.ReadFile(filepath.Join(dir, "tables", id+".md"))
	if errors.Is(err, fs.ErrNotExist) {
		return notThere, nil
	}
	if err != nil {
		return "", err
	}
	return excerpt(string(text), more, path+id+".md")
}

// commandsTable has a row for each command of experiments.
func commandsTable(dir, path string) (string, error) {
	var b strings.Builder
	b.WriteString("| command | makes | takes | last result |\n|---|---|---|---|")
	for _, parts := range experiments.Commands() {
		id := parts[0].ID
		var makes []string
		var takes time.Duration
		for _, d := range parts {
			e, err := d.Load()
			if err != nil {
				return "", err
			}
			makes, takes = append(makes, d.About().Makes), takes+e.Expected("quick")
		}
		last := "-"
		log, err := records.Load(filepath.Join(dir, "records", id+".jsonl"), id)
		if err == nil {
			tables, err := filepath.Glob(filepath.Join(dir, "tables", id+"*.md"))
			if err != nil || len(tables) == 0 {
				return "", fmt.Errorf("%s has records and no table: %v", id, err)
			}
			first := slices.MinFunc(tables, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			last = fmt.Sprintf("[%s, %s](%s)", log.Session.Time[:len(time.DateOnly)], log.Key.Profile, path+filepath.Base(first))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(&b, "\n| `make %s` | %s | %s | %s |", id, strings.Join(makes, "; "), units.FormatWait(takes), last)
	}
	return b.String(), nil
}

const notThere = "*Not among the reference results yet.*"

// summarised is a table in Markdown less the columns that are empty.
func summarised(t *suite.Table) (string, error) {
	short, rows := *t, t.Printed()
	short.Rows = slices.Clone(t.Rows)
	short.Only(func(i int) bool { return slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) })
	var b strings.Builder
	err := short.Draw(&b, true)
	return strings.TrimSpace(b.String()), err
}

// excerpt takes some columns of a table that was written as Markdown, all if
// none are named, with its title, where the rest is, its verdict and its origin.
func excerpt(text, columns, link string) (string, error) {
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
		return "", fmt.Errorf("%s has no table with a title", link)
	}
	keep, err := chosen(rows[0], columns)
	if err != nil {
		return "", fmt.Errorf("%s: %w", link, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** ([notes](%s))\n\n", title, link)
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
		i := slices.Index(head, name)
		if i < 0 {
			return nil, fmt.Errorf("no column %q: want some of %s", name, strings.Join(head, "; "))
		}
		keep = append(keep, i)
	}
	return keep, nil
}

func TestExcerpt(t *testing.T) {
	table := &suite.Table{
		ID: "sample", Title: "A sample", Caption: []string{"Measured as a|b."},
		Notes: []string{"Verdict: yes.", "Another note.", "Measured then."},
	}
	table.Texts("what")
	table.Numbers("measured", "95%", "modelled")
	table.Add("a|b", 1, "x", 2)
	var b strings.Builder
	if err := table.Write(&b, "markdown"); err != nil {
		t.Fatal(err)
	}
	got, err := excerpt(b.String(), "what; modelled; 95%", "there.md")
	want := `**A sample** ([notes](there.md))

| what | modelled | 95% |
`
	if err != nil || !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "| a\\|b | 2 | x |\n\n<sub>Verdict: yes.</sub>\n\n<sub>Measured then.</sub>") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := excerpt(b.String(), "what; meant", "there.md"); err == nil || !strings.Contains(err.Error(), `no column "meant"`) {
		t.Errorf("a column that is not there: %v", err)
	}
	for text, want := range map[string]string{
		"<!-- claims -->\n": "README.md:1: no <!-- end -->",
		"a\n<!-- end -->":   "README.md:2: an end without",
		"<!-- table: none -->\n<!-- table: none -->\n<!-- end -->": "README.md:2: a marker within",
	} {
		if _, err := regenerate(text, "../../results/reference"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	there := "<!-- table: none -->\n\n" + notThere + "\n\n<!-- end -->\nend"
	if got, err := regenerate("<!-- table: none -->\nold\n<!-- end -->\nend", t.TempDir()); err != nil || got != there {
		t.Errorf("%v\n%s", err, got)
	}
}

// What README.md and docs refer to within the project is there.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	found := 0
	for _, name := range append(files, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s refers to %s, which is not there", filepath.Base(name), m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no links found")
	}
}
