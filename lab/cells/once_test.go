package cells

import (
	"errors"
	"testing"

	"gpipebench/internal/testkit"
)

// What is made is made once; what failed, again.
func TestOnce(t *testing.T) {
	var o once[string, int]
	calls, broken := 0, errors.New("broken")
	make := func() (int, error) {
		if calls++; calls == 1 {
			return 0, broken
		}
		return 7, nil
	}
	if _, err := o.of("a", make); err != broken {
		t.Errorf("at first: %v", err)
	}
	for range 2 {
		if v, err := o.of("a", make); v != 7 || err != nil {
			t.Errorf("then: %d, %v", v, err)
		}
	}
	testkit.Equal(t, calls, 2, "calls")
}
