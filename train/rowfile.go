package train

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"gpipebench/internal/floatjson"
)

// RowEndings are the endings of the names of files of rows: comma-separated values
// with a line of the columns' names, or a JSON object a line. A name without an ending
// is a file of the first kind.
var RowEndings = []string{".csv", ".jsonl"}

// rowWriter writes rows of named values, each with one call of Write. A value is a
// string, an integer or a number; nil means that the row has none, which is an empty
// field of CSV and a missing key of JSON.
type rowWriter struct {
	to      io.Writer
	columns []string
	json    bool
}

// newRowWriter returns a writer of a file whose name has one of RowEndings.
func newRowWriter(to io.Writer, name string, columns ...string) *rowWriter {
	return &rowWriter{to: to, columns: columns, json: strings.EqualFold(filepath.Ext(name), ".jsonl")}
}

// begin writes what comes before the first row.
func (r *rowWriter) begin() error {
	if r.json {
		return nil
	}
	return r.comma(r.columns)
}

// add writes a row: a value for each column.
func (r *rowWriter) add(values ...any) error {
	if r.json {
		return r.object(values)
	}
	fields := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case float64:
			fields[i] = strconv.FormatFloat(v, 'g', -1, 64)
		default:
			fields[i] = fmt.Sprint(v)
		}
	}
	return r.comma(fields)
}

func (r *rowWriter) comma(fields []string) error {
	var line bytes.Buffer
	w := csv.NewWriter(&line)
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	_, err := r.to.Write(line.Bytes())
	return err
}

// object writes a row's keys in the order of the columns.
func (r *rowWriter) object(values []any) error {
	line := []byte{'{'}
	for i, v := range values {
		if v == nil {
			continue
		}
		text, err := floatjson.Marshal(v)
		if err != nil {
			return err
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = append(fmt.Appendf(line, "%q:", r.columns[i]), text...)
	}
	_, err := r.to.Write(append(line, "}\n"...))
	return err
}
