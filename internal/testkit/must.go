package testkit

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Must ends a test at the error of a call, and otherwise returns the call's value:
// value := testkit.Must(call())(t). What says which call, in the form of fmt.Sprintf.
func Must[T any](value T, err error) func(t testing.TB, what ...any) T {
	return func(t testing.TB, what ...any) T {
		t.Helper()
		NoError(t, err, what...)
		return value
	}
}

// NoError ends a test at an error.
func NoError(t testing.TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v", label(what), err)
	}
}

// Refused checks that a call fails, and how, as Fails does:
// testkit.Refused(call())(t, "want 1 to 3").
func Refused[T any](_ T, err error) func(t testing.TB, says ...string) {
	return func(t testing.TB, says ...string) {
		t.Helper()
		Fails(t, err, says...)
	}
}

// Fails checks that there is an error, that it is one line, and that all of says is in it.
func Fails(t testing.TB, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", says)
	} else if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v\nwant one line", err)
	} else {
		Has(t, err.Error(), says...)
	}
}

// FailsFirst is Fails of an error that begins so.
func FailsFirst(t testing.TB, err error, begins string, says ...string) {
	t.Helper()
	Fails(t, err, says...)
	if err != nil && !strings.HasPrefix(err.Error(), begins) {
		t.Errorf("error %v, want %q first", err, begins)
	}
}

// Panics checks that a call panics, and that all of says is in what it panics with, whose text it returns.
func Panics(t testing.TB, call func(), says ...string) (text string) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got == nil {
			t.Errorf("no panic, want one with %q", says)
		} else {
			text = fmt.Sprint(got)
			Has(t, text, says...)
		}
	}()
	call()
	return ""
}

// PanicsFirst is Panics of a text that begins so.
func PanicsFirst(t testing.TB, call func(), begins string) {
	t.Helper()
	if got := Panics(t, call); !strings.HasPrefix(got, begins) {
		t.Errorf("panic %q, want %q first", got, begins)
	}
}

// Has checks that all of wants is in a text.
func Has(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// Equal checks a value; what says which, in the form of fmt.Sprintf.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if got != want {
		differ(t, got, want, what)
	}
}

// EqualAll is Equal for slices.
func EqualAll[S ~[]E, E comparable](t testing.TB, got, want S, what ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		differ(t, got, want, what)
	}
}

// EqualDeep is Equal by reflect.DeepEqual.
func EqualDeep(t testing.TB, got, want any, what ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		differ(t, got, want, what)
	}
}

// Near checks a number that may be off by a tolerance; NaN is never near.
func Near(t testing.TB, got, want, tolerance float64, what ...any) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s%v, want %v within %v", label(what), got, want, tolerance)
	}
}

func differ(t testing.TB, got, want any, what []any) {
	t.Helper()
	t.Errorf("%s%s, want %s", label(what), shown(got), shown(want))
}

func label(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf(what[0].(string), what[1:]...) + ": "
}

// shown is the beginning of a value, a text of one line in quotes.
func shown(v any) string {
	form := "%+v"
	if text, ok := v.(string); ok && !strings.Contains(text, "\n") {
		form = "%q"
	}
	return fmt.Sprintf("%.4000s", fmt.Sprintf(form, v))
}

// Is checks an error as errors.Is does.
func Is(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
	}
}
