package cells

import (
	"context"
	"errors"
	"testing"

	"gpipebench/internal/testkit"
)

// What is made is made once; what failed, again.
func TestOnce(t *testing.T) {
	broken, calls := errors.New("broken"), 0
	get := Shared(func(context.Context) (int, error) {
		if calls++; calls == 1 {
			return 0, broken
		}
		return 7, nil
	})
	_, err := get(t.Context())
	testkit.Equal(t, err, broken, "at first")
	for range 2 {
		testkit.Equal(t, testkit.Must(get(t.Context()))(t), 7, "then")
	}
	testkit.Equal(t, calls, 2, "calls")
}
