package cells

import (
	"context"
	"errors"
	"testing"

	"gpipebench/internal/testkit"
)

// What is made is made once; what failed, again.
func TestOnce(t *testing.T) {
	broken := errors.New("broken")
	for name, made := range map[string]func(make func() (int, error)) func() (int, error){
		"by key": func(make func() (int, error)) func() (int, error) {
			var o once[string, int]
			return func() (int, error) { return o.of("a", make) }
		},
		"shared": func(make func() (int, error)) func() (int, error) {
			shared := Shared(func(context.Context) (int, error) { return make() })
			return func() (int, error) { return shared(t.Context()) }
		},
	} {
		calls := 0
		get := made(func() (int, error) {
			if calls++; calls == 1 {
				return 0, broken
			}
			return 7, nil
		})
		_, err := get()
		testkit.Equal(t, err, broken, "%s, at first", name)
		for range 2 {
			testkit.Equal(t, testkit.Must(get())(t), 7, "%s, then", name)
		}
		testkit.Equal(t, calls, 2, "%s: calls", name)
	}
}
