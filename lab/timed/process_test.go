package timed_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// Whatever a round's process prints, the log takes what it asked for or says in one
// line why not.
func FuzzAdoptAll(f *testing.F) {
	own := records.Key{Experiment: "e", Profile: "smoke"}
	var lines bytes.Buffer
	other := records.New(own)
	other.PrintTo(&lines, 0)
	testkit.NoError(f, errors.Join(other.Add("a", 3, 1), other.Add("b", 4, []int{1})))
	for _, text := range []string{"", "\n", "rubbish\n", lines.String(), lines.String() + lines.String(), lines.String()[:lines.Len()-1]} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log := records.New(own)
		if err := timed.AdoptAll(bytes.NewReader(text), []string{"a", "b"}, log); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
		for _, name := range log.Names {
			if name != "a" && name != "b" {
				t.Errorf("%q: adopts %q", text, name)
			}
		}
	})
}
