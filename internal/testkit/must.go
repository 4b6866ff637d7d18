package testkit

import "testing"

// Must ends a test at the error of a call, and otherwise returns the call's value:
// value := testkit.Must(call())(t).
func Must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// NoError ends a test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
