package floatjson

import (
	stdjson "encoding/json"
	"strings"
	"testing"
)

// Errors name fields and what they take, in JSON's words.
func TestErrorsWithoutGo(t *testing.T) {
	type part struct {
		Bytes []int64 `json:"peak_bytes"`
		Mean  float64 `json:"mean"`
	}
	for text, want := range map[string]string{
		`{"peak_bytes": ["1"]}`: `is a JSON string: want a whole number within its range`,
		`{"peak_bytes": [1.5]}`: `want a whole number within its range`,
		`{"peak_bytes": 3}`:     `"peak_bytes" is a JSON number: want an array`,
		`{"mean": {}}`:          `"mean" is a JSON object: want a number`,
		`[]`:                    `"the whole" is a JSON array: want an object`,
	} {
		var p part
		std := Plain(stdjson.Unmarshal([]byte(text), &p))
		for _, err := range []error{Unmarshal([]byte(text), &p), std} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "int64") || strings.Contains(err.Error(), "json:") {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		}
	}
}
