package records

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// JSON has no number for what is infinite or no number, such as the perplexity of
// a network that has diverged. In all that the program prints or records, it is
// the string "Infinity", "-Infinity" or "NaN", as in the JSON of protocol buffers,
// and is read back from that.
var (
	writeNonFinite = json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, f float64) error {
		switch {
		case math.IsNaN(f):
			return e.WriteToken(jsontext.String("NaN"))
		case math.IsInf(f, 1):
			return e.WriteToken(jsontext.String("Infinity"))
		case math.IsInf(f, -1):
			return e.WriteToken(jsontext.String("-Infinity"))
		}
		return errors.ErrUnsupported // as any other number
	}))
	readNonFinite = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, f *float64) error {
		if d.PeekKind() != '"' {
			return errors.ErrUnsupported
		}
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		switch t.String() {
		case "NaN":
			*f = math.NaN()
		case "Infinity":
			*f = math.Inf(1)
		case "-Infinity":
			*f = math.Inf(-1)
		default:
			return fmt.Errorf("%q: want a number, or \"NaN\", \"Infinity\" or \"-Infinity\"", t.String())
		}
		return nil
	}))
)

// WriteJSON writes a value as one document, indented, with a newline behind it.
func WriteJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), writeNonFinite, jsontext.WithIndent("  "), jsontext.EscapeForHTML(false))
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// MarshalJSON makes one line of a value, unmarshalJSON reads it.
func MarshalJSON(v any) ([]byte, error) {
	return json.Marshal(v, jsonv1.DefaultOptionsV1(), writeNonFinite)
}

func UnmarshalJSON(text []byte, into any) error {
	return json.Unmarshal(text, into, jsonv1.DefaultOptionsV1(), readNonFinite)
}
