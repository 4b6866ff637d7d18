package sums

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

// Whatever a list of digests is, it is read, and means the same when it is written
// again, or refused with the line's number.
func FuzzParse(f *testing.F) {
	whole := Text(map[string]string{"records/a.jsonl": strings.Repeat("0a", 32), "tables/b c.csv": strings.Repeat("ff", 32)})
	for _, text := range []string{"", whole, whole + whole, whole[:len(whole)-1], "\n", strings.Replace(whole, "records", "..", 1), strings.Replace(whole, "  ", " ", 1), whole + "x  y"} {
		f.Add(text)
	}
	refusal := regexp.MustCompile(`^\d+: want [^\n]+$`)
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := parse(text)
		if err != nil {
			if !refusal.MatchString(err.Error()) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if again, err := parse(Text(sums)); err != nil || !maps.Equal(again, sums) {
			t.Errorf("%q: %v, written and read again %v, %v", text, sums, again, err)
		}
	})
}
