package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/printable"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// What a spec or a machine calls itself is no HTML in Markdown; other signs stay.
func TestMarkdownHasNoHTML(t *testing.T) {
	table := &lab.Table{ID: "sample", Title: "<b>title</b>", Caption: []string{"<script>"}, Columns: []lab.Column{{Name: "<i>", Left: true}}, Notes: []string{"p < 0.05 <!-- -->"}}
	table.Add("<img src=x>|1 < 2")
	var b strings.Builder
	testkit.NoError(t, table.Write(&b, "markdown"))
	testkit.Has(t, b.String(), "p < 0.05 &lt;!-- -->", `&lt;img src=x>\|1 < 2`)
	testkit.Equal(t, printable.Tag.FindString(b.String()), "", "a tag in\n%s\n", &b)
}

func TestSpecErrorsHavePositions(t *testing.T) {
	for _, c := range []struct {
		old, replacement string
		line             string // text of the line that is to be named
		want             string
	}{
		{"batch: 32", "batch: many", "batch: many", "many"},
		{"batch: 32", "batch: 33", "batch: 33", "not of one size"},
		{"schedule: gpipe", "schedule: zigzag", "schedule: zigzag", "want gpipe, naive, "},
		{"k: [2, 4, 8]", "k: [4, 8]", "base:", "no cell has K = 2, M = 1"},
		{"rounds: 2", "rounds: 0", "rounds: 0", "want a whole number from 1 to 1000"},
		{"expected: 10s", "expected: soon", "expected: soon", "want a duration"},
		{"  full:", "  fuller:", "  fuller:", "want smoke, quick, full"},
		{"base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "base: {k: 4", "value in the paper is 1"},
	} {
		text := labtest.Edited(t, gpipe.Paper.Experiment("table2"), c.old, c.replacement)
		err := labtest.Refused(t, gpipe.Paper.Experiment("table2"), c.old, c.replacement)
		testkit.FailsFirst(t, err, fmt.Sprintf("x.yaml:%d:", labtest.LineWith(text, c.line)), c.want)
	}
}

// A run that is stopped goes on where it was, and one that is complete is used
// again.
func TestReproduceGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	dir := t.TempDir()
	r := Reproducing{Profile: "smoke", Only: []string{"consistency-accuracy"}, Out: dir, Reference: filepath.Join(dir, "none")}
	once := func() (*said, string) {
		t.Helper()
		p := &said{}
		var b strings.Builder
		testkit.NoError(t, r.Run(t.Context(), p, func(_ lab.Experiment, rep *lab.Report) error { return rep.Tables[0].Write(&b, "text") }))
		return p, b.String()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // trainings run beside one another
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &said{advanced: func(string) { stop() }} // after the first of six trainings
	testkit.Is(t, r.Run(ctx, p, nil), context.Canceled)
	second, table := once()
	var left int
	if len(second.begun) == 1 {
		fmt.Sscanf(second.begun[0], "consistency-accuracy: %d training", &left)
	}
	if left < 1 || left > 5 {
		t.Errorf("the second run began %q, want what the first had left of six trainings", second.begun)
	}
	third, again := once()
	testkit.Equal(t, len(third.begun), 0, "the third run began %q", third.begun)
	testkit.Has(t, strings.Join(third.lines, "\n"), "used again")
	testkit.Equal(t, again, table, "the third run's table")
	// Beside it, as a reference.
	r.Reference, r.Out = dir, filepath.Join(dir, "other")
	_, beside := once()
	testkit.Has(t, beside, "reference accuracy")
	for _, name := range []string{"consistency-accuracy.md", "consistency-accuracy.csv", "consistency-accuracy.svg"} {
		testkit.Must(os.Stat(filepath.Join(dir, "other", "tables", name)))(t)
	}
}

// said is a Progress that keeps its calls' arguments.
type said struct {
	begun, lines []string
	advanced     func(string)
}

func (s *said) Begin(what string, _ int) { s.begun = append(s.begun, what) }

func (s *said) End() {}

func (s *said) Say(line string) { s.lines = append(s.lines, line) }

func (s *said) Advance(detail string) {
	if s.advanced != nil {
		s.advanced(detail)
	}
}

// A defect of a report is no fault of its records.
func TestReportWithADefect(t *testing.T) {
	e := testkit.Must(Load("table1"))(t)
	defer func() {
		if _, ok := recover().(runtime.Error); !ok {
			t.Error("the defect was taken for something else")
		}
	}()
	r, err := lab.ReportOf(surprised{e}, records.New(e.Key("smoke")), nil)
	t.Errorf("%v, %v", r, err)
}

// surprised is an experiment whose report is wrong, whatever the records are.
type surprised struct{ lab.Experiment }

func (surprised) Report(_, _ *records.Log) (*lab.Report, error) {
	var report *lab.Report
	return report, report.Verdict
}
