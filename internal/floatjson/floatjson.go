// Package floatjson writes and reads JSON whose numbers need not be finite.
//
// JSON has no representation of infinities and NaN, such as the perplexity of a
// network that has diverged. Here they are the strings "Infinity", "-Infinity"
// and "NaN", as in the JSON of protocol buffers.
package floatjson

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

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
		return errors.ErrUnsupported // like any other number
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

// Write writes a value as one indented document followed by a newline.
func Write(w io.Writer, v any) error {
	text, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), writeNonFinite, jsontext.WithIndent("  "), jsontext.EscapeForHTML(false))
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Marshal returns the JSON of a value on one line.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, jsonv1.DefaultOptionsV1(), writeNonFinite)
}

// Unmarshal parses JSON into a value.
func Unmarshal(text []byte, into any) error {
	return Plain(json.Unmarshal(text, into, jsonv1.DefaultOptionsV1(), readNonFinite))
}

// Plain is an error of reading JSON in words that do without Go's.
func Plain(err error) error {
	var v1 *jsonv1.UnmarshalTypeError
	var std *stdjson.UnmarshalTypeError
	var v2 *json.SemanticError
	switch {
	case errors.As(err, &v1):
		return otherKind(v1.Field, v1.Value, v1.Type)
	case errors.As(err, &std):
		return otherKind(std.Field, std.Value, std.Type)
	case errors.As(err, &v2) && v2.GoType != nil && v2.Err == nil:
		return otherKind(strings.ReplaceAll(strings.TrimPrefix(string(v2.JSONPointer), "/"), "/", "."), v2.JSONKind.String(), v2.GoType)
	}
	return err
}

// otherKind is the error of a field that has something of a kind it does not take.
func otherKind(field, has string, takes reflect.Type) error {
	for takes.Kind() == reflect.Pointer {
		takes = takes.Elem()
	}
	want := "an object"
	switch k := takes.Kind(); {
	case k == reflect.Bool:
		want = "true or false"
	case k == reflect.String:
		want = "a string"
	case k >= reflect.Int && k <= reflect.Uint64:
		want = "a whole number within its range"
	case k == reflect.Float32, k == reflect.Float64:
		want = "a number"
	case k == reflect.Slice, k == reflect.Array:
		want = "an array"
	}
	return fmt.Errorf("%q is a JSON %s: want %s", cmp.Or(field, "the whole"), has, want)
}

// Complete parses JSON into a value and rejects a text that lacks a member
// which writing the value would produce. Its error calls the text what.
func Complete(what string, text []byte, into any) error {
	if err := Unmarshal(text, into); err != nil {
		return err
	}
	again, err := Marshal(into)
	if err != nil || bytes.Equal(again, text) {
		return err
	}
	var written, there any
	if err := errors.Join(json.Unmarshal(again, &written), json.Unmarshal(text, &there)); err != nil {
		return err
	}
	return lacks(written, there, what)
}

// lacks returns an error for the first part of written that there does not
// have. Further parts of there do not matter; at names the document.
func lacks(written, there any, at string) error {
	switch w := written.(type) {
	case map[string]any:
		t, _ := there.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(w)) {
			value, ok := t[name]
			if !ok {
				return fmt.Errorf("%s has no %q", at, name)
			}
			if err := lacks(w[name], value, fmt.Sprintf("%q", name)); err != nil {
				return err
			}
		}
	case []any:
		t, _ := there.([]any)
		if len(t) != len(w) {
			return fmt.Errorf("%s has %d entries, want %d", at, len(t), len(w))
		}
		for i := range w {
			if err := lacks(w[i], t[i], at); err != nil {
				return err
			}
		}
	default:
		if there == nil && written != nil {
			return fmt.Errorf("%s is null", at)
		}
	}
	return nil
}
