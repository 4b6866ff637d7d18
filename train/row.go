package train

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// writeRow writes a line of comma-separated values with one call of Write. A value is a
// string, an integer or a number; nil is an empty field.
func writeRow(to io.Writer, values ...any) error {
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
	var line bytes.Buffer
	w := csv.NewWriter(&line)
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	_, err := to.Write(line.Bytes())
	return err
}
