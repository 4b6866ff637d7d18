package expr

import (
	"errors"
	"strings"
	"testing"
)

// Operators and functions compute; a meaningless operation is an error, and a
// text that is not an expression is rejected before.
func TestExpressions(t *testing.T) {
	own := Functions{
		"length": func(args []any) (any, error) {
			texts, err := Texts(args, 1)
			return float64(len(strings.Join(texts, ""))), err
		},
		"fails": func([]any) (any, error) { return nil, errors.New("no") },
	}
	for text, want := range map[string]any{
		`1 + 2*3 - 4/2`: 5., `-(1 - 2)`: 1., `1 < 2 && !(2 <= 1) || false()`: nil, `"a" == "b"`: false, `"a" != "b"`: true,
		`1 == 1 && 1 != 2 && 2 > 1 && 2 >= 2`: true, `length("ab", 12)`: 4., `rising(1, 2) && !rising(2, 2)`: true, `abs(-2) + min(1, 2) + max(1, 2)`: 5.,
		`1 + "a"`: nil, `!1`: nil, `-true()`: nil, `rising(1)`: nil, `abs("a")`: nil, `length(1 < 2)`: nil, `fails()`: nil,
	} {
		if got, err := own.Evaluate(text); got != want || (err == nil) != (want != nil) {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`1 +`: "expected operand", `os.Exit(1)`: "want abs, fails, length, max, min, rising", `none(1)`: "none is no function", `func() {}()`: "is no function", `a[1]`: `"a[1]": want numbers`,
	} {
		if err := own.Check(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := own.Check(`length("a") > fails()`); err != nil {
		t.Error(err)
	}
	if _, err := own.Number("1 < 2"); err == nil || !strings.Contains(err.Error(), "is true: want a number") {
		t.Error(err)
	}
	if _, err := own.Truth("1"); err == nil || !strings.Contains(err.Error(), "is 1: want true or false") {
		t.Error(err)
	}
}
