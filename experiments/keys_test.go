package experiments

import (
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
)

// A key depends on what a spec says for its profile, and on nothing else that it has.
func TestKeysSeeWhatDecides(t *testing.T) {
	text := gpipe.Paper.Experiment("table2").Spec()
	key := func(text, profile string) string {
		e := testkit.Must(Load("table2", lab.SpecFile{Name: "changed.yaml", Experiment: "table2", Text: []byte(text)}))(t)
		return e.Key(profile).Spec
	}
	changed := func(from, to string) string {
		testkit.Equal(t, strings.Count(text, from), 1, "the spec has %q", from)
		return strings.Replace(text, from, to, 1)
	}
	quick, full := key(text, "quick"), key(text, "full")
	for what, same := range map[string]string{
		"a comment": "# another\n" + text,
		"the title": changed(`title: "`, `title: "Another `),
		"the time":  changed("expected: 65s", "expected: 9m"),
	} {
		testkit.Equal(t, key(same, "quick"), quick, "%s decides samples", what)
	}
	rounds := changed("rounds: 9", "rounds: 26")
	if key(rounds, "quick") != quick || key(rounds, "full") == full {
		t.Error("a change of the full profile is not one of its samples alone")
	}
	for _, other := range []string{changed("batch: 32 #", "batch: 64 #"), changed("rounds: 6\n", "rounds: 7\n"), changed("partitioner: min-max", "partitioner: block")} {
		if key(other, "quick") == quick {
			t.Error("another spec has the same key")
		}
	}
}
