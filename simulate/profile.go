package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/files"
	"gpipebench/internal/printable"
)

// Profile is what was measured of a network's layers, or of its stages, in their order: a row each.
// As a file it is CSV whose first line names its columns, in any order: name and f; b, w and bytes
// may be missing.
type Profile struct {
	Names []string
	Times []schedule.Duration // milliseconds of a micro-batch: F, and B as I and W
	Bytes []float64           // what its device must hold of it
	Sized bool                // whether there was a column of bytes
}

// maxProfile bounds a profile's file, and profileRows its rows.
const (
	maxProfile  = 1 << 20
	profileRows = 2000
)

// ReadProfile reads a file. An error has line and column.
func ReadProfile(name string) (*Profile, error) {
	text, err := files.Read(name, files.Kind{What: "a profile", Bytes: maxProfile})
	if err != nil {
		return nil, err
	}
	p, err := parseProfile(strings.NewReader(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", files.Printable(name), err)
	}
	return p, nil
}

const profileColumns = "name, f, b, w, bytes"

func parseProfile(text io.Reader) (*Profile, error) {
	r := csv.NewReader(text)
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	read := func() ([]string, error) {
		cells, err := r.Read()
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			err = fmt.Errorf("%d:%d: %w", bad.Line, bad.Column, bad.Err)
		}
		return cells, err
	}
	at := func(i int) string {
		line, column := r.FieldPos(i)
		return fmt.Sprintf("%d:%d", line, column)
	}
	heads, err := read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("1:1: empty: want a line with the columns %s", profileColumns)
	}
	if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, h := range heads {
		h = strings.TrimPrefix(strings.TrimSpace(h), "\ufeff") // as spreadsheets begin a file
		if _, twice := column[h]; twice || !slices.Contains(strings.Split(profileColumns, ", "), h) {
			return nil, fmt.Errorf("%s: column %s: want each of %s once at most", at(i), printable.Quoted(h), profileColumns)
		}
		column[h] = i
	}
	for _, needed := range []string{"name", "f"} {
		if _, ok := column[needed]; !ok {
			return nil, fmt.Errorf("1:1: no column %s: want name, f and, if they were measured, b, w and bytes", needed)
		}
	}
	p := &Profile{}
	_, p.Sized = column["bytes"]
	for {
		cells, err := read()
		switch {
		case errors.Is(err, io.EOF) && len(p.Names) == 0:
			return nil, fmt.Errorf("2:1: no rows: want one for each layer or stage")
		case errors.Is(err, io.EOF):
			return p, nil
		case err != nil:
			return nil, err
		case len(cells) != len(heads):
			return nil, fmt.Errorf("%s: %d cells: want %d, as in the first line", at(0), len(cells), len(heads))
		case len(p.Names) == profileRows:
			return nil, fmt.Errorf("%s: more than %d rows", at(0), profileRows)
		}
		number := func(head string) (v float64) {
			i, ok := column[head]
			if !ok || err != nil {
				return 0
			}
			most := math.MaxFloat32
			if head == "bytes" {
				most = 1 << 50 // of which all rows have fewer than an int64 holds
			}
			v, failed := strconv.ParseFloat(strings.TrimSpace(cells[i]), 64)
			if failed != nil || !(v >= 0) || v > most {
				err = fmt.Errorf("%s: %s %s: want a number from 0 to %.1e", at(i), head, printable.Quoted(printable.Short(cells[i], 40)), most)
			}
			return v
		}
		d := schedule.Duration{F: number("f"), I: number("b"), W: number("w")}
		bytes := number("bytes")
		if err != nil {
			return nil, err
		}
		p.Names = append(p.Names, cells[column["name"]])
		p.Times, p.Bytes = append(p.Times, d), append(p.Bytes, bytes)
	}
}

// Write writes a profile as [ReadProfile] reads it.
func (p *Profile) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	heads := strings.Split(profileColumns, ", ")
	if !p.Sized {
		heads = heads[:len(heads)-1]
	}
	rows := [][]string{heads}
	for i, name := range p.Names {
		row := []string{name}
		for _, v := range []float64{p.Times[i].F, p.Times[i].I, p.Times[i].W, p.Bytes[i]}[:len(heads)-1] {
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

// stages adds up the rows of each stage, which is named by its first and last one.
func (p *Profile) stages(sizes []int) *Profile {
	s := &Profile{Sized: p.Sized}
	from := 0
	for _, n := range sizes {
		name := p.Names[from]
		if n > 1 {
			name += " to " + p.Names[from+n-1]
		}
		var d schedule.Duration
		bytes := 0.0
		for i := from; i < from+n; i++ {
			d.F, d.I, d.W = d.F+p.Times[i].F, d.I+p.Times[i].I, d.W+p.Times[i].W
			bytes += p.Bytes[i]
		}
		s.Names, s.Times, s.Bytes = append(s.Names, name), append(s.Times, d), append(s.Bytes, bytes)
		from += n
	}
	return s
}
