package cells

import (
	"context"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

type sideSpec struct {
	lab.Head   `yaml:",inline"`
	shown.Spec `yaml:",inline"`
	inner      `yaml:",inline"`
	Sides      []int `yaml:"sides" want:"1..100,first=1,ascending"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

type inner struct {
	Model train.Model `yaml:"model"`
}

type area struct {
	Area  float64 `json:"area"`
	Parts struct {
		Half float64 `json:"half"`
	} `json:"parts"`
}

var sides = Kind[sideSpec, area]{
	Rows: func(s *sideSpec, _ string) (rows []Row[area], err error) {
		for i, side := range s.Sides {
			name := "small"
			if side > 2 {
				name = "large"
			}
			paper := lab.Absent
			if i > 0 {
				paper = lab.Verbatim("2.50").Printed("%")
			}
			rows = append(rows, Row[area]{Has: shown.Values{"side": side, "name": name, "big": side > 2, "paper": paper}, Reads: []Cell[area]{{
				As: "of", Sample: name + string(rune('a'+i)), Make: func(context.Context) (a area, err error) {
					a.Area = float64(side * side)
					a.Parts.Half = a.Area / 2
					return a, nil
				},
			}}})
		}
		return rows, nil
	},
}

const sideText = `experiment: sides
title: Sides
source: none
discard: nothing
seed: 1
model: {name: resnet50, width: 8, image: 32, classes: 10}
sides: [1, 2, 3]
tables:
  - caption: ["{{.Model.Name}}, {{first.side}} first; {{count}} rows{{\"\\n\"}}{{count \"big\"}} big"]
    columns:
      - {head: side, is: side}
      - {head: name, is: name}
      - {id: hidden, is: of_area * 10}
      - {head: area, is: of_area, as: "%.1f"}
      - {head: share, is: of_parts_half / of_area, as: "%.0f%%"}
      - {head: in *, each: [of], is: hidden + *_area, as: time, when: big}
      - {head: big, is: big}
      - {head: paper, is: paper}
    notes: [{when: big, text: "{{.name}} is big."}]
plots:
  - {title: all, x: side, y: area, lines: [{name: area, column: area}, {name: tenfold, column: area, times: 10, when: "!big"}]}
profiles: {smoke: {expected: 1s}, quick: {expected: 1s}, full: {expected: 1s}}
`

func loadSides(text string) (*Experiment[sideSpec, area], error) {
	made, err := sides.New()
	e := made.(*Experiment[sideSpec, area])
	if err != nil {
		return nil, err
	}
	root, err := e.Read(lab.SpecFile{Name: "x.yaml", Text: []byte(text)})
	if err == nil {
		err = e.Resolve().Located("x.yaml", root)
	}
	return e, err
}

// A table has what its columns say of rows and samples.
func TestShown(t *testing.T) {
	e := testkit.Must(loadSides(sideText))(t)
	log := records.New(e.Key("quick"))
	rows, _ := e.Rows("quick")
	for _, r := range rows {
		made, _ := r.Reads[0].Make(t.Context())
		testkit.NoError(t, log.Add(r.Reads[0].Sample, 0, made))
	}
	r := testkit.Must(e.Report(log, nil))(t)
	table := r.Tables[0]
	var printed []string
	for _, row := range table.Printed() {
		printed = append(printed, strings.Join(row, " "))
	}
	testkit.Equal(t, strings.Join(printed, "; "), "1 small 1.0 50% - no -; 2 small 4.0 50% - no 2.50%; 3 large 9.0 50% 99 s yes 2.50%", "rows")
	testkit.Equal(t, table.Rows[2][4].Numbers[0], 99, "a time")
	left := ""
	for _, c := range table.Columns {
		if c.Left {
			left += c.Name + " "
		}
	}
	if left != "name big " || strings.Join(table.Caption, "|") != "resnet50, 1 first; 3 rows|1 big" || strings.Join(table.Notes, "|") != "large is big." || len(r.Files) != 1 {
		t.Errorf("texts %s, caption %q, notes %q, %d files", left, table.Caption, table.Notes, len(r.Files))
	}
	// Words of tables and plots decide no sample.
	testkit.Equal(t, testkit.Must(loadSides(strings.Replace(sideText, "head: share,", "head: part,", 1)))(t).Key("quick"), e.Key("quick"))
	if runs := e.Planned("quick"); len(runs) != 1 || strings.Join(runs[0].Path, "/") != "model" {
		t.Errorf("planned %v", runs)
	}
}

// What cannot be shown is refused where it is.
func TestShownRefused(t *testing.T) {
	for _, c := range [][3]string{
		{"is: side}", "is: length}", "x.yaml:11:22: tables.0.columns.0.is: length: unknown name length"},
		{"is: of_area * 10", "is: of_area *", "x.yaml:13:22: tables.0.columns.2.is: of_area *: "},
		{"as: time", "as: hours", `x.yaml:16:55: tables.0.columns.5.as: "hours": want time, bytes, signed`},
		{"head: name,", "head: side,", "two columns \"side\""},
		{"{{.Model.Name}}", "{{.Modell.Name}}", "x.yaml:9:5: tables.0.caption: "},
		{"{{.name}} is", "{{.nme}} is", "map has no entry for key \"nme\""},
		{"column: area}, {", "column: surface}, {", "x.yaml:21:5: plots.0: no column \"surface\""},
		{"x: side", "x: length", "no column \"length\""},
		{"when: big, text", "when: side, text", "want true or false"},
		{"  - caption", "  - rows: others\n    caption", "no rows \"others\""},
		{"sides: [1, 2, 3]", "sides: [2, 3]", "want 1 first"},
		{"sides: [1, 2, 3]", "sides: [1, 3, 2]", "in ascending order"},
	} {
		text := strings.Replace(sideText, c[0], c[1], 1)
		if text == sideText {
			t.Fatalf("no %q", c[0])
		}
		testkit.Refused(loadSides(text))(t, c[2])
	}
}
