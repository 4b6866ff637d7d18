package claims

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// Alone is a ledger without code: Dir has claims.yaml, as a paper's folder has, and in place of
// records the tables that its claims read, NAME.csv for the table NAME. The first line of a table
// names its columns. A cell is a text, or a number as papers print them, such as 81,505, 1.8B, 3.15
// GiB or 63.4%, with its 95% interval behind it if it has one: 3.24 [3.18, 3.28].
type Alone struct {
	Dir  string
	Only []string // as of Verifying
}

// AloneFile is the file that makes a directory such a ledger.
const AloneFile = "claims.yaml"

// ledgerKind bounds a ledger's file to ten times the longest of ours.
var ledgerKind = files.Kind{What: "a ledger", Bytes: 1 << 20}

// Run judges the claims, as Verifying.Run does. A column or a row that a table lacks is wrong; a table that is
// missing is no record.
func (a Alone) Run(context.Context) (*Verification, error) {
	text, err := files.Read(filepath.Join(a.Dir, AloneFile), ledgerKind)
	if err != nil {
		return nil, err
	}
	p := lab.Paper{Name: filepath.ToSlash(filepath.Clean(a.Dir)), Claims: text}
	p.Of = "the ledger " + printable.Line(p.Name)
	ledgers, err := loadLedgers([]lab.Paper{p})
	if err != nil {
		return nil, err
	}
	all := claimsOf(ledgers)
	for _, c := range all {
		if c.Design != "" {
			return nil, fmt.Errorf("%s/claims.yaml:%d: %s: a design is part of an experiment, and a ledger by itself has none: want a check", p.Name, c.line, c.ID)
		}
	}
	if err := checkOnly(a.Only, all); err != nil {
		return nil, err
	}
	v := &Verification{Results: a.Dir, Papers: []string{p.Name}, subjects: []lab.Paper{p}}
	tables := tablesOf{}
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".csv" {
			continue
		}
		t, err := readTable(filepath.Join(a.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		tables[t.ID] = claimTable{Table: t, experiment: t.ID}
		v.Records = append(v.Records, RecordsState{Experiment: t.ID, Paper: p.Name, Results: a.Dir, State: "a table without records", Usable: true})
	}
	if err := v.judge(ledgers, tables, nil, a.Only); err != nil {
		return nil, err
	}
	for i, c := range v.Claims { // an experiment's table may lack rows at a smaller size, but this one was written for these claims
		if c.misnamed != "" && !slices.ContainsFunc(v.Claims[:i], func(before Judgement) bool { return before.misnamed == c.misnamed }) {
			v.Wrong = append(v.Wrong, c.ID+": "+c.misnamed)
		}
	}
	return v, nil
}

// readTable reads a table of a ledger without code.
func readTable(name string) (*lab.Table, error) {
	text, err := files.Read(name, tableKind)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: strings.TrimSuffix(filepath.Base(name), ".csv")}
	t.Title = t.ID
	rows := csv.NewReader(bytes.NewReader(text))
	for {
		row, err := rows.Read()
		var at *csv.ParseError
		switch {
		case errors.Is(err, io.EOF) && len(t.Rows) == 0:
			return nil, fmt.Errorf("%s: no rows: want a line with the names of the columns, and a line for each row", name)
		case errors.Is(err, io.EOF):
			return t, nil
		case errors.As(err, &at):
			return nil, fmt.Errorf("%s:%d:%d: %w: want CSV", name, at.Line, at.Column, at.Err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		if t.Columns == nil {
			for _, head := range row {
				if t.Column(head) >= 0 {
					return nil, fmt.Errorf("%s:%d: two columns %s: want each once", name, line, printable.Quoted(lab.Slug(head)))
				}
				t.Texts(head)
			}
			continue
		}
		var cells []lab.Value
		for _, text := range row {
			v, err := readCell(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, line, err)
			}
			cells = append(cells, v)
		}
		t.Rows = append(t.Rows, cells)
	}
}

var intervalForm = regexp.MustCompile(`^([^\[\]]*[^\[\] ]) ?\[([^\[\],]+), ([^\[\],]+)\]$`)

// readCell reads a cell. What does not begin with a number is a text.
func readCell(text string) (lab.Value, error) {
	m := intervalForm.FindStringSubmatch(text)
	if m == nil {
		return lab.Figure(text), nil
	}
	v, low, high := lab.Figure(m[1]), lab.Figure(m[2]), lab.Figure(m[3])
	switch {
	case len(v.Numbers) == 0:
		return lab.Value{Text: text}, nil
	case len(low.Numbers)+len(high.Numbers) < 2 || low.Numbers[0] > v.Numbers[0] || v.Numbers[0] > high.Numbers[0]:
		return v, fmt.Errorf("%s: want a number within its interval, such as 3.24 [3.18, 3.28]", printable.Quoted(text))
	}
	return lab.Value{Text: text, Numbers: v.Numbers, Interval: []float64{low.Numbers[0], high.Numbers[0]}}, nil
}
