package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/simulate"
)

// The command gives a row of Table 5 of arXiv 2401.10241 from the times of its Table 9, to
// the printed digit.
func TestScheduleCommand(t *testing.T) {
	for name, want := range map[string]string{"1f1b": "0.2347", "zb-h1": "0.1323", "zb-h2": "0.0698"} {
		r := decodedJSON[simulate.Scheduled](t, "schedule", "--schedule", name, "-k", "8", "-m", "24", "--times", "f=29.718,b=29.444,w=19.927,comm=.527")
		if got := fmt.Sprintf("%.4f", r.BubbleRate); got != want || len(r.Devices) != 8 {
			t.Errorf("%s: bubble rate %s of %d devices, printed %s of 8", name, got, len(r.Devices), want)
		}
	}
}

// A schedule that is written as CSV comes to the same when it is read.
func TestScheduleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.csv")
	times := []string{"--times", "f=2,b=3,w=1,comm=.5", "--activations", "f=4,b=1,w=3", "--json"}
	_, csv, _ := execute(t, "schedule", "--schedule", "zb-v", "-k", "3", "-m", "7", "--format", "csv")
	testkit.NoError(t, os.WriteFile(file, []byte(csv), 0o600))
	_, want, _ := execute(t, append([]string{"schedule", "--schedule", "zb-v", "-k", "3", "-m", "7"}, times...)...)
	status, got, errs := execute(t, append([]string{"schedule", "--schedule", file}, times...)...)
	if status != 0 || got != want || !strings.Contains(got, "peak_memory") {
		t.Errorf("exit status %d, %s\n%s, want\n%s", status, errs, got, want)
	}
	_, text, _ := execute(t, "schedule", "--schedule", file)
	testkit.Has(t, text, "3 devices, 6 stages, 7 micro-batches")
}

// A file that is no schedule is refused in one line that names the file, the task and what
// it waits for, before anything runs.
func TestScheduleFileRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.csv")
	for text, want := range map[string]string{
		"2F0,0F0,2B0,0B0\n1F0,1B0,3F0,3B0\n": "device 0 waits for ever: 2F0 needs 1F0 of device 1, which cannot run before it",
		"0F0,2F0,2B0,0B0\n1F0,3F0,1B0,3B0\n": "device 0 waits for ever: 2B0 needs 3B0 of device 1, which cannot run before it",
		"0F0,2F0,2B0,0B0\n1F0,3F0,3B0\n":     "device 1: 1B0 is missing, after 1F0",
		"0F0,0I0\n1F0,1B0\n":                 "device 0: W0 is missing, after I0",
		"0F0,0B0\n1F0,1F1,1B0,1B1\n":         "device 0: F1 is missing",
		"0F0,0B0\n1F0,what\n":                `row 2, cell 2: "what": want a stage`,
	} {
		testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, command := range []string{"schedule", "train", "simulate"} {
			status, out, said := execute(t, command, "--schedule", file, "-k", "2", "-m", "1")
			if status != 1 || out != "" || !strings.HasPrefix(said, "gpipebench: ") || !strings.Contains(said, file+": ") || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 {
				t.Errorf("%s of %q: status %d, %q, want %q", command, text, status, said, want)
			}
		}
	}
}

// Without times every task takes a millisecond, and a micro-batch's activations are 1.
func TestScheduleDefaults(t *testing.T) {
	r := decodedJSON[simulate.Scheduled](t, "schedule", "--schedule", "1f1b", "-k", "4", "-m", "8")
	if r.Makespan != 33 || math.Abs(r.BubbleRate-9./33) > 1e-12 || r.Devices[0].Peak != 4 || r.Devices[3].Busy != 24 {
		t.Errorf("%+v", r)
	}
}

// A searched schedule is written as any other, comes to the same when it is read, and is
// within its limit; with two chunks the better way of placing them is taken.
func TestScheduleSearch(t *testing.T) {
	times := []string{"--times", "f=2,b=3,w=1,comm=.5"}
	for _, chunks := range []string{"1", "2"} {
		search := append([]string{"schedule", "--search", "--memory-limit", "5", "-k", "3", "-m", "7", "--chunks", chunks}, times...)
		r := decodedJSON[simulate.Scheduled](t, search...)
		for i, d := range r.Devices {
			if d.Peak > 5+1e-9 || d.Busy != 42 {
				t.Errorf("%s chunks, device %d: %+v", chunks, i, d)
			}
		}
		file := filepath.Join(t.TempDir(), "s.csv")
		_, csv, _ := execute(t, append(search, "--format", "csv")...)
		testkit.NoError(t, os.WriteFile(file, []byte(csv), 0o600))
		read := decodedJSON[simulate.Scheduled](t, append([]string{"schedule", "--schedule", file}, times...)...)
		if read.Span != r.Span || r.Searched == nil || read.Searched != nil {
			t.Errorf("%s chunks: searched %+v, read %+v", chunks, r, read)
		}
	}
	_, text, _ := execute(t, append([]string{"schedule", "--search", "--memory-limit", "6", "-k", "3", "-m", "7"}, times...)...)
	testkit.Has(t, text, "searched: 3 devices", "No schedule with this placement")
}

// The idle time of each device is divided, and what is left of it by no cause is nothing;
// the picture and the page are written.
func TestScheduleDrawn(t *testing.T) {
	dir := t.TempDir()
	svg, html := filepath.Join(dir, "s.svg"), filepath.Join(dir, "s.html")
	file := filepath.Join(dir, "s.csv")
	_, csv, _ := execute(t, "schedule", "--schedule", "zb-v", "-k", "3", "-m", "7", "--format", "csv")
	testkit.NoError(t, os.WriteFile(file, []byte(csv), 0o600))
	for _, c := range []struct{ name, page string }{{"1f1b", `"schedule":"1f1b","k":3,"m":7`}, {file, `"place":[0,1,2,2,1,0]`}} {
		r := decodedJSON[simulate.Scheduled](t, "schedule", "--schedule", c.name, "-k", "3", "-m", "7", "--times", "f=2,b=3,w=1,comm=.5", "--svg", svg, "--html", html, "--memory-limit", "2.5")
		for i, d := range r.Devices {
			if math.Abs(d.Idle.Sum()+d.Busy-r.Makespan) > 1e-9 || d.Idle.Link == 0 || d.Idle.Imbalance > 1e-9 {
				t.Errorf("%s, device %d of %v: %+v", c.name, i, r.Makespan, d)
			}
		}
		for name, want := range map[string]string{svg: "3 devices", html: c.page} {
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "/*given*/") {
				t.Errorf("%s: %s has no %s: %v", c.name, name, want, err)
			}
		}
		if page, _ := os.ReadFile(html); !strings.Contains(string(page), `"limit":2.5`) {
			t.Errorf("%s: no limit on the page", c.name)
		}
	}
	_, text, _ := execute(t, "schedule", "--schedule", "1f1b")
	testkit.Has(t, text, "Causes of idle time")
}
