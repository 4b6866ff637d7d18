package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
)

// With --peak, steps and plans are what they were before accelerators had efficiencies,
// to the last digit; without it they are not, where the file has some. The files of
// testdata/peak were written then; since cuts leave out an R that is not run, plan-tpuv2 has another first plan and both plans simulate fewer.
func TestPeakIsTheOldRoofline(t *testing.T) {
	const dir = "testdata/peak"
	commands := testkit.Must(os.ReadFile(filepath.Join(dir, "commands")))(t)
	for line := range strings.Lines(string(commands)) {
		name, command, _ := strings.Cut(strings.TrimSpace(line), ": ")
		text := testkit.Must(os.ReadFile(filepath.Join(dir, name+".json")))(t)
		want := decoded(t, name, string(text))
		run := func(flags ...string) any {
			// On a busy machine a search reports its progress on standard error.
			args := strings.Fields(command)
			out, _ := succeeds(t, slices.Concat([]string{args[0], "--accounting", "paper", "--json"}, args[1:], flags)...)
			return asOf(any(want), any(decoded(t, name, out)))
		}
		testkit.Equal(t, cmp.Diff(any(want), run("--peak")), "", "%s: (-as it was +got)", name)
		// TPUs have none for convolutions, and what else these networks do waits for memory.
		atPeak := !strings.Contains(name, "p100") && !strings.Contains(name, "v100") && name != "transformer-tpuv3"
		testkit.Equal(t, cmp.Equal(any(want), run()), atPeak, "%s: the same as at the peak", name)
	}
}

// decoded reads a command's JSON. A plan is of GPipe's schedule: no other is searched if none is asked for.
func decoded(t *testing.T, name, text string) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	testkit.NoError(t, d.Decode(&v), "%s", name)
	delete(v, "dismissed") // how many ways a search rejects without simulating them is its own affair
	plans, _ := v["plans"].([]any)
	for _, plan := range plans {
		p := plan.(map[string]any)
		if _, now := p["schedule"]; now && (p["schedule"] != "gpipe" || p["chunks"] != json.Number("1")) {
			t.Errorf("%s: %v in %v pieces of each device: only GPipe's is searched if no other is asked for", name, p["schedule"], p["chunks"])
		}
	}
	return v
}

// asOf leaves out the fields of got that have come since want was written.
func asOf(want, got any) any {
	switch old := want.(type) {
	case map[string]any:
		now, ok := got.(map[string]any)
		if !ok {
			return got
		}
		kept := map[string]any{}
		for key := range old {
			if value, ok := now[key]; ok {
				kept[key] = asOf(old[key], value)
			}
		}
		return kept
	case []any:
		now, ok := got.([]any)
		if !ok || len(now) != len(old) {
			return got
		}
		kept := make([]any, len(now))
		for i := range now {
			kept[i] = asOf(old[i], now[i])
		}
		return kept
	}
	return got
}
