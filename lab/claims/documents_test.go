package claims_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/labtest"
)

// No number in README.md, ARTIFACT.md and docs that comes out of the reference is typed: what
// stands between a marker and <!-- end --> is made of the reference: of results/reference-full
// where that has it, otherwise of results/reference. Markers are,
// each on a line of its own,
//
//	<!-- table: ID -->                    a table's columns, title and origin
//	<!-- table: ID | column; column -->   some columns, by their IDs
//	<!-- picture: FILE | what it shows -->
//	<!-- claims -->                       verdicts of verify by kind of claim, and by what the evidence is
//	<!-- claims: PAPER -->                those on another paper than the first
//	<!-- headline -->                     the first paper's main sentences, what each comes to, and counts of verdicts
//	<!-- experiments -->                  each experiment, its plots, and links to its tables
//	<!-- durations -->                    how long each experiment's samples took
//	<!-- artefact -->                     each row of the first paper's headline: what comes out, by which commands, in which time
//	<!-- bench -->                        what make bench has measured
//	<!-- bench: roofline -->              where the time of steps goes, by that
//	<!-- bench: scale -->                 the plot of simulate over the tasks of a step, which is written beside tables
//
// and within a line
//
//	<!-- value: NAME -->12%<!-- end -->
//
// where a comment at the end of the file has the names: what each is, in the words
// of claims.yaml, and how it is printed.
//
//	<!-- values
//	NAME = 100*cell("table", "column", "key", "value") | %.0f%%
//	-->
//
// After a change to the reference or to a marker, write them anew with make
// reference.
func TestDocuments(t *testing.T) {
	const root = "../.."
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no docs", err)
	}
	const quick, full = "results/reference", "results/reference-full"
	figure := claims.Committed(t, claims.FullDir).Figures()
	for _, name := range append(documents, root+"/README.md", root+"/ARTIFACT.md", filepath.Join(root, quick, "README.md"), filepath.Join(root, full, "README.md")) {
		text := testkit.Must(os.ReadFile(name))(t)
		base, _ := filepath.Rel(root, name)
		d := document{name: base, figure: figure, verdicts: claims.VerdictsOf(t, claims.FullDir), drawn: map[string]string{}}
		dirs := []string{full, quick}
		if base == quick+"/README.md" {
			dirs, d.verdicts = []string{quick}, claims.VerdictsOf(t, claims.QuickDir)
		}
		for _, dir := range dirs {
			tables := testkit.Must(filepath.Rel(filepath.Dir(base), filepath.Join(dir, "tables")))(t)
			d.from = append(d.from, directory{filepath.Join(root, dir), tables + "/", claims.Committed(t, filepath.Join(root, dir))})
		}
		got := testkit.Must(d.regenerate(string(text)))(t)
		if lines := strings.Count(got, "\n"); base == "ARTIFACT.md" && lines > 120 {
			t.Errorf("%s: %d lines, want 120 at most", base, lines)
		}
		for file, text := range d.drawn {
			if was, err := os.ReadFile(file); string(was) == text {
				continue
			} else if !*labtest.Update {
				t.Errorf("%s is not what the reference gives (%v); write it anew: make reference", file, err)
			} else {
				testkit.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			}
		}
		if got == string(text) {
			continue
		}
		if *labtest.Update {
			testkit.NoError(t, os.WriteFile(name, []byte(got), 0o644))
			continue
		}
		was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
		at := slices.IndexFunc(was, func(line string) bool { i := slices.Index(is, line); return i < 0 })
		t.Errorf("%s:%d is not what the reference gives; write it anew: make reference", base, max(at, 0)+1)
	}
}

var (
	readmeMarker = regexp.MustCompile(`^<!-- (table|picture|claims|headline|commands|experiments|durations|artefact|bench)(?:: ([^|]+?))?(?: \| (.+?))? -->$`)
	valueMarker  = regexp.MustCompile(`(<!-- value: ([a-z0-9-]+) -->)[^<\n]*(<!-- end -->)`)
	valueNames   = regexp.MustCompile(`(?s)\n<!-- values\n(.*?)-->`)
	readmeEnd    = "<!-- end -->"
)

// document is a file with markers, and what is put between them.
type document struct {
	name   string
	from   []directory // where the first that has something decides
	figure func(expression string) (float64, error)
	// verdicts are those on the claims of all papers.
	verdicts *claims.Verification
	drawn    map[string]string // texts of pictures that are of no experiment, by file
}

// directory is one of results.
type directory struct {
	results string
	tables  string // its tables, as a reader of the document has them
	reading *claims.Reading
}

// regenerate puts what a directory of results has between a text's markers.
func (d document) regenerate(text string) (string, error) {
	text, err := d.values(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.name, err)
	}
	var out []string
	open := 0 // the line of the marker that is not closed yet
	for i, line := range strings.Split(text, "\n") {
		m := readmeMarker.FindStringSubmatch(line)
		switch {
		case line == readmeEnd && open == 0:
			return "", fmt.Errorf("%s:%d: an end without a marker", d.name, i+1)
		case line == readmeEnd:
			open = 0
		case m != nil && open > 0:
			return "", fmt.Errorf("%s:%d: a marker within that of line %d: want %s before", d.name, i+1, open, readmeEnd)
		case m != nil:
			open = i + 1
			made, err := d.generated(m[1], m[2], m[3])
			if err != nil {
				return "", fmt.Errorf("%s:%d: %w", d.name, i+1, err)
			}
			out = append(out, line, "", made, "")
			continue
		case open > 0:
			continue
		}
		out = append(out, line)
	}
	if open > 0 {
		return "", fmt.Errorf("%s:%d: no %s", d.name, open, readmeEnd)
	}
	return strings.Join(out, "\n"), nil
}

// values puts figures between the markers within lines.
func (d document) values(text string) (string, error) {
	printed, used := map[string]string{}, map[string]bool{}
	if named := valueNames.FindStringSubmatch(text); named != nil {
		for line := range strings.SplitSeq(strings.TrimSpace(named[1]), "\n") {
			name, is, ok := strings.Cut(line, " = ")
			at := strings.LastIndex(is, " | ")
			if !ok || at < 0 || printed[name] != "" {
				return "", fmt.Errorf("%q: want a name of its own = an expression | a format", line)
			}
			v, err := d.figure(is[:at])
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			printed[name] = fmt.Sprintf(is[at+len(" | "):], v)
		}
	}
	var unknown error
	text = valueMarker.ReplaceAllStringFunc(text, func(whole string) string {
		m := valueMarker.FindStringSubmatch(whole)
		if printed[m[2]] == "" {
			unknown = fmt.Errorf("no value %s", m[2])
		}
		used[m[2]] = true
		return m[1] + printed[m[2]] + m[3]
	})
	if n := strings.Count(text, "<!-- value: "); n != len(valueMarker.FindAllString(text, -1)) {
		return "", errors.New("a value's marker without its end in the same line, or with a < before it")
	}
	for name := range printed {
		if !used[name] && unknown == nil {
			unknown = fmt.Errorf("value %s is nowhere shown", name)
		}
	}
	return text, unknown
}

// generated is the text that belongs after one marker.
func (d document) generated(kind, id, more string) (string, error) {
	switch kind {
	case "bench":
		return d.bench(id)
	case "claims", "headline":
		v := d.verdicts.Of(cmp.Or(id, experiments.Papers[0].Name))
		if kind == "headline" {
			return d.headline(v), nil
		}
		kinds, bases := v.Summary()
		byKind, err := summarised(kinds)
		if err != nil {
			return "", err
		}
		byBasis, err := summarised(bases)
		return byKind + "\n\n" + byBasis, err
	case "experiments":
		return d.from[0].experiments()
	case "durations":
		return d.from[0].durations()
	case "artefact":
		return d.artefact()
	case "picture":
		if at, ok := d.find(id); ok {
			return fmt.Sprintf("![%s](%s)", more, at), nil
		}
		return notThere, nil
	}
	for _, dir := range d.from {
		text, err := os.ReadFile(filepath.Join(dir.results, "tables", id+".md"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return excerpt(string(text), more, fmt.Sprintf("[notes](%s%s.md)%s", dir.tables, id, dir.plotOf(id)))
	}
	return notThere, nil
}

// headline is the table of a paper's main sentences, whose evidence are links.
func (d document) headline(v *claims.Verification) string {
	var b strings.Builder
	b.WriteString("**" + v.Answer() + "**\n\n| the paper says | outcome | paper | here |\n|---|---|---|---|")
	for i, row := range v.HeadlineTable().Printed() {
		verdict := string(v.Headline[i].Verdict)
		outcome := strings.Replace(row[1], verdict, "**"+verdict+"**", 1)
		for _, id := range strings.Split(row[4], ", ") {
			if at, ok := d.find(id + ".md"); ok {
				outcome += fmt.Sprintf(" [%s](%s)", id, at)
			}
		}
		fmt.Fprintf(&b, "\n| %s | %s | %s | %s |", row[0], outcome, row[2], row[3])
	}
	fmt.Fprintf(&b, "\n\n%s", v.Says())
	return b.String()
}

// find returns where a reader of the document has a file that is among the tables.
func (d document) find(name string) (at string, ok bool) {
	for _, dir := range d.from {
		if dir.has(name) {
			return dir.tables + name, true
		}
	}
	return "", false
}

// has reports whether a file is among the tables.
func (d directory) has(name string) bool {
	_, err := os.Stat(filepath.Join(d.results, "tables", name))
	return err == nil
}

const notThere = "*Not among the reference results yet.*"

// summarised is a table in Markdown less the columns that are empty.
func summarised(t *lab.Table) (string, error) {
	short := &lab.Table{Rows: make([][]lab.Value, len(t.Rows))}
	for i, c := range t.Columns {
		if !slices.ContainsFunc(t.Rows, func(row []lab.Value) bool { return row[i].Text != "" }) {
			continue
		}
		short.Columns = append(short.Columns, c)
		for n, row := range t.Rows {
			short.Rows[n] = append(short.Rows[n], row[i])
		}
	}
	var b strings.Builder
	err := short.Draw(&b, true)
	return strings.TrimSpace(b.String()), err
}

func TestValuesInProse(t *testing.T) {
	d := document{name: "page.md", figure: func(expression string) (float64, error) {
		if expression != "a | b" {
			return 0, errors.New("no " + expression)
		}
		return 12.5, nil
	}}
	const names = "\n<!-- values\none = a | b | %.1f%%\n-->\n"
	got := testkit.Must(d.regenerate("x <!-- value: one -->old<!-- end --> y, <!-- value: one --><!-- end -->." + names))(t)
	testkit.Equal(t, got, "x <!-- value: one -->12.5%<!-- end --> y, <!-- value: one -->12.5%<!-- end -->."+names)
	for text, want := range map[string]string{
		"<!-- value: two -->1<!-- end -->" + names: "page.md: no value two",
		"nothing" + names:                          "page.md: value one is nowhere shown",
		"<!-- value: one -->1\n" + names:           "page.md: a value's marker without its end",
		"\n<!-- values\none = c | %v\n-->":         "page.md: one: no c",
		"\n<!-- values\none = c\n-->":              `page.md: "one = c": want a name of its own`,
		"<!-- value: one -->1<!-- end -->" + names[:len(names)-5] + "\none = a | b | %v\n-->": `page.md: "one = a | b | %v": want a name of its own`,
	} {
		_, err := d.regenerate(text)
		testkit.FailsFirst(t, err, want)
	}
}

// What README.md, ARTIFACT.md and docs refer to within the project is there.
func TestLinks(t *testing.T) {
	files := testkit.Must(filepath.Glob("../../docs/*.md"))(t)
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	found := 0
	for _, name := range append(files, "../../README.md", "../../ARTIFACT.md") {
		text := testkit.Must(os.ReadFile(name))(t)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			_, err := os.Stat(filepath.Join(filepath.Dir(name), m[1]))
			testkit.Equal(t, err, nil, "%s refers to %s", filepath.Base(name), m[1])
		}
	}
	if found == 0 {
		t.Error("no links found")
	}
}
