package failure

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// recovered returns the error of a function that panics.
func recovered(f func()) (err error) {
	defer Catch(&err)
	f()
	return nil
}

func outOfRange(at int) int { return []int{1, 2}[at] }

// rethrown panics again in a deferred function, as a function does that
// recovers only another kind of panic.
func rethrown() {
	defer func() { panic(recover()) }()
	_ = outOfRange(2)
}

// The place of a defect is where the first panic was, however it was passed on.
func TestWhere(t *testing.T) {
	for what, f := range map[string]func(){
		"a panic":        func() { _ = outOfRange(2) },
		"panicked again": rethrown,
		"of another goroutine": func() {
			there := make(chan error)
			go func() { there <- recovered(func() { _ = outOfRange(2) }) }()
			panic(<-there)
		},
	} {
		line, trace, ok := Report(fmt.Errorf("stage 1: %w", recovered(f)))
		want := regexp.MustCompile(`^a defect of this program, in internal/failure\.outOfRange \(failure/defect_test\.go:\d+\): stage 1: panic: runtime error: index out of range \[2\] with length 2$`)
		if !ok || !want.MatchString(line) || !strings.Contains(string(trace), "outOfRange") {
			t.Errorf("%s: %q, %v, trace\n%s", what, line, ok, trace)
		}
	}
	line, _, _ := Report(recovered(func() { _ = strings.Repeat("a", -1) })) // a panic of the library
	testkit.Has(t, line, "in internal/failure.TestWhere.func")
	_, _, ok := Report(errors.New("boom"))
	testkit.Equal(t, ok, false, "an error is a defect")
	testkit.Is(t, recovered(func() { panic(os.ErrExist) }), os.ErrExist)
}
