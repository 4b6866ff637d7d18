package gpipe

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/nn/program"
)

var update = flag.Bool("update", false, "write the transcripts of testdata/steps anew: only after a change that should move tasks or slots; then read them")

// TestTranscripts replays the steps of testdata/steps, which are made to be read. A
// file begins with what it shows. Then come sections that say what is run:
//
//	lists     each stage's tasks; F0* keeps its residuals, R0? waits for the output gradient
//	times     in milliseconds, of F, R and B, or of a stage's: F 1, stage 2 B 3
//	panics    optional: the stage and the task in which it panics, halfway
//
// and sections with the results, which -update writes:
//
//	timeline  the runtime's, in a bubble where tasks take exactly as long as they sleep;
//	          the virtual clock's is the same
//	slots     of each stage: which slots each task that began reads and writes
//	failure   the error of the runtime, and that of the virtual clock
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/steps/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := readTranscript(t, string(text))
			synctest.Test(t, func(t *testing.T) { s.run(t) })
			got := s.String()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(text), got); diff != "" && !*update {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

type transcript struct {
	about    string
	sections map[string]string

	lists  [][]schedule.Task
	times  func(stage int, kind timeline.Kind) time.Duration
	panics string // stage and task
}

func readTranscript(t *testing.T, text string) *transcript {
	t.Helper()
	s := &transcript{sections: map[string]string{}}
	parts := strings.Split("\n"+text, "\n-- ")
	s.about = strings.TrimSpace(parts[0])
	for _, part := range parts[1:] {
		name, body, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("section %q has no end of its name", part)
		}
		s.sections[name] = strings.TrimSpace(body)
	}
	for line := range strings.Lines(s.sections["lists"]) {
		_, tasks, _ := strings.Cut(line, ":")
		var list []schedule.Task
		for _, word := range strings.Fields(tasks) {
			list = append(list, readTask(t, word))
		}
		s.lists = append(s.lists, list)
	}
	table := map[string]time.Duration{}
	for line := range strings.Lines(s.sections["times"]) {
		words := strings.Fields(line)
		ms, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			t.Fatal(err)
		}
		table[strings.Join(words[:len(words)-1], " ")] = time.Duration(ms) * time.Millisecond
	}
	s.times = func(stage int, kind timeline.Kind) time.Duration {
		if own, ok := table[fmt.Sprintf("stage %d %v", stage, kind)]; ok {
			return own
		}
		return table[kind.String()]
	}
	s.panics = s.sections["panics"]
	return s
}

func readTask(t *testing.T, word string) (task schedule.Task) {
	t.Helper()
	kind, number := word[:1], strings.TrimRight(word[1:], "*?")
	micro, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("task %q: %v", word, err)
	}
	return schedule.Task{
		Kind: map[string]schedule.Kind{"F": schedule.Forward, "R": schedule.Recompute, "B": schedule.Backward}[kind], Micro: micro,
		Keep: strings.HasSuffix(word, "*"), AwaitGrad: strings.HasSuffix(word, "?"),
	}
}

// run runs a step of a small network and writes the results into the sections.
func (s *transcript) run(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions = len(s.lists)
	for _, task := range s.lists[0] {
		p.MicroBatches = max(p.MicroBatches, task.Micro+1)
	}
	var mu sync.Mutex
	slots := make([]string, len(s.lists))
	p.testing.lists = s.lists
	p.testing.bound = func(r *chunkRun, kind timeline.Kind, micro int) {
		if !kind.Task() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if slots[r.k] != "" {
			slots[r.k] += "; "
		}
		slots[r.k] += fmt.Sprintf("%v%d", kind, micro) + boundSlots(r, kind, micro)
	}
	p.testing.inTask = func(stage int, kind timeline.Kind, micro int) {
		if !kind.Task() {
			return
		}
		if fmt.Sprintf("stage %d %v%d", stage, kind, micro) == s.panics {
			time.Sleep(s.times(stage, kind) / 2)
			panic("boom")
		}
		time.Sleep(s.times(stage, kind))
	}
	tr, err := p.Open(InputOf(small.data(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r, failed := tr.Step(ctx, small.data(0))
	virtual, stuck := clock.Replay(s.lists, clock.Costs{Task: func(at place.Place, task schedule.Task) float64 {
		return s.times(at.Stage, map[schedule.Kind]timeline.Kind{
			schedule.Forward: timeline.Forward, schedule.Recompute: timeline.Recompute, schedule.Backward: timeline.Backward,
		}[task.Kind]).Seconds()
	}})

	s.sections["timeline"], s.sections["failure"] = "", ""
	if failed != nil {
		s.sections["failure"] = "runtime: " + failed.Error()
	} else {
		s.sections["timeline"] = drawnTasks(t, r.Timeline)
	}
	if stuck != nil {
		s.sections["failure"] = strings.TrimSpace(s.sections["failure"] + "\nvirtual clock: " + stuck.Error())
	} else if drawn := drawnTasks(t, virtual); failed == nil && drawn != s.sections["timeline"] {
		t.Errorf("on the virtual clock\n%s\nin the runtime\n%s", drawn, s.sections["timeline"])
	}
	for k := range slots {
		slots[k] = fmt.Sprintf("%d: %s", k, slots[k])
	}
	s.sections["slots"] = strings.Join(slots, "\n")
}

// boundSlots names the slots that a task of this kind uses.
func boundSlots(r *chunkRun, kind timeline.Kind, micro int) (text string) {
	add := func(name string, s program.Space) {
		if slot := r.origins[s].slot; slot >= 0 {
			text += fmt.Sprint(" ", name, slot)
		}
	}
	add("in", program.In)
	if r.residual.Of(micro) >= 0 {
		add("residual", program.Residual)
	}
	switch {
	case kind != timeline.Backward:
		add("out", program.Out)
	default:
		if !r.isLast() {
			add("dout", program.DOut)
		}
		if r.k > 0 {
			add("din", program.DIn)
		}
	}
	return text
}

// drawnTasks draws F, R and B.
func drawnTasks(t *testing.T, tl *timeline.Timeline) string {
	only := &timeline.Timeline{Devices: tl.Devices}
	for _, e := range tl.Events {
		if e.Kind.Task() {
			only.Events = append(only.Events, e)
		}
	}
	var b bytes.Buffer
	if err := draw.WriteText(&b, only, 110); err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s *transcript) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, s.about)
	for _, name := range []string{"lists", "times", "panics", "timeline", "slots", "failure"} {
		if body := s.sections[name]; body != "" {
			fmt.Fprintf(&b, "\n-- %s --\n%s\n", name, body)
		}
	}
	return b.String()
}
