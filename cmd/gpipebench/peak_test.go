package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With --peak, steps and plans are what they were before accelerators had efficiencies,
// to the last digit; without it they are not, where the file has some. The files of
// testdata/peak were written then, and are never written anew.
func TestPeakIsTheOldRoofline(t *testing.T) {
	const dir = "testdata/peak"
	commands, err := os.ReadFile(filepath.Join(dir, "commands"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(commands)) {
		name, command, _ := strings.Cut(strings.TrimSpace(line), ": ")
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want := decoded(t, name, string(text))
		run := func(flags ...string) any {
			// On a busy machine a search reports its progress on standard error.
			args := strings.Fields(command)
			status, out, errs := execute(t, append(append([]string{args[0], "--accounting", "paper"}, append(args[1:], "--json")...), flags...)...)
			if status != 0 {
				t.Fatalf("%s: status %d, %s", name, status, errs)
			}
			return decoded(t, name, out)
		}
		if diff := cmp.Diff(want, run("--peak")); diff != "" {
			t.Errorf("%s: (-as it was +got)\n%s", name, diff)
		}
		// TPUs have none for convolutions, and what else these networks do waits for memory.
		atPeak := !strings.Contains(name, "p100") && !strings.Contains(name, "v100") && name != "transformer-tpuv3"
		if same := cmp.Equal(want, run()); same != atPeak {
			t.Errorf("%s: the same as at the peak: %v, want %v", name, same, atPeak)
		}
	}
}

// decoded reads a command's JSON, without the fields that have come since then: which
// rates it is at, what replicas add, the causes of a device's idle time, and a plan's schedule.
func decoded(t *testing.T, name, text string) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(name, err)
	}
	parts := []map[string]any{v}
	plans, _ := v["plans"].([]any)
	for _, plan := range plans {
		p := plan.(map[string]any)
		if _, now := p["schedule"]; now && (p["schedule"] != "gpipe" || p["chunks"] != json.Number("1")) {
			t.Errorf("%s: %v in %v pieces of each device: only GPipe's is searched if no other is asked for", name, p["schedule"], p["chunks"])
		}
		parts = append(parts, p)
	}
	devices, _ := v["devices"].([]any)
	for _, device := range devices {
		parts = append(parts, device.(map[string]any))
	}
	for _, part := range parts {
		for _, since := range []string{"peak", "replicas", "groups", "all_reduce_seconds", "update_seconds", "idle", "schedule", "chunks"} {
			delete(part, since)
		}
	}
	return v
}
