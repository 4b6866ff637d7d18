// Package named writes and reads constants that count from 0 by their names.
package named

import (
	"fmt"
	"slices"
	"strings"
)

// String returns the name of a constant, or, for a value that is none, the type's name and the
// value: Kind(7).
func String[T ~uint8](v T, names []string, typ string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}

// Parse returns the constant of a name. An error says what it should be the name of, and all names.
func Parse[T ~uint8](name string, names []string, what string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("unknown %s %q: want %s", what, name, Any(names))
}

// Any lists names as in a, b or c.
func Any(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
