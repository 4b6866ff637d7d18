package experiments

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpipebench"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// asRound says what the test's binary does when it is started for a round; if it
// is not set, what is asked for.
const asRound = "GPIPEBENCH_TEST_ROUND"

func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != timed.RoundCommand {
		os.Exit(m.Run())
	}
	switch os.Getenv(asRound) {
	case "fails":
		fmt.Fprintln(os.Stderr, "on my way")
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+": out of paper")
		os.Exit(1)
	case "panics":
		_ = (*records.Log)(nil).Key
	case "prints rubbish":
		fmt.Println("rubbish")
		_, _ = io.Copy(io.Discard, os.Stdin) // goes on until its input ends
	case "says nothing":
		os.Exit(1)
	case "is killed", "is quit":
		sig := syscall.SIGKILL
		if os.Getenv(asRound) == "is quit" { // Go's runtime then prints all goroutines
			sig = syscall.SIGQUIT
		}
		self, _ := os.FindProcess(os.Getpid())
		fmt.Fprintln(os.Stderr, "on my way")
		_ = self.Signal(sig)
		time.Sleep(time.Minute)
	case "does nothing":
		os.Exit(0)
	}
	if err := Round(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// smallSpec writes a spec of an experiment into dir, with a network that takes milliseconds
// where its own has convolutions, and loads it.
func smallSpec(t *testing.T, id, dir string) lab.Experiment {
	t.Helper()
	list := List()
	own := list[slices.IndexFunc(list, func(d lab.Definition) bool { return d.ID == id })].Spec()
	small := convolutional.ReplaceAllString(own, "{name: transformer-lm, layers: 6, dim: 16, ff: 64, heads: 1, vocab: 250, seq: 8}")
	name := filepath.Join(dir, "spec.yaml")
	testkit.NoError(t, os.WriteFile(name, []byte(small), 0o600))
	spec := testkit.Must(lab.ReadSpec(name, IDs()))(t)
	return testkit.Must(Load(id, spec))(t)
}

var convolutional = regexp.MustCompile(`\{name: (resnet101|amoebanetd)\b[^}]*\}`)

// inFreshProcesses reproduces an experiment's smoke profile, of a small spec, with the
// test's binary for each round.
func inFreshProcesses(t *testing.T, id, dir string) Reproducing {
	t.Helper()
	smallSpec(t, id, dir)
	return killedRun(dir, true)
}

func runQuietly(ctx context.Context, r Reproducing) (report *lab.Report, err error) {
	err = r.Run(ctx, progress.Silent{}, func(_ lab.Experiment, made *lab.Report) error { report = made; return nil })
	return report, err
}

// recordsOf reads a records file of one key, in the order of its lines.
func recordsOf(t *testing.T, dir, id string) (all []*records.Record, sessions map[string]records.Provenance) {
	t.Helper()
	text := testkit.Must(os.ReadFile(filepath.Join(dir, "records", id+".jsonl")))(t)
	sessions = map[string]records.Provenance{}
	for line := range bytes.Lines(text) {
		r := testkit.Must(records.DecodeRecord(bytes.TrimSpace(line)))(t, "%.80q", line)
		if r.Provenance != nil {
			sessions[r.Session] = *r.Provenance
		} else {
			all = append(all, r)
		}
	}
	return all, sessions
}

// keysOf are the names under which a sample's payload holds something.
func keysOf(t *testing.T, data []byte) []string {
	t.Helper()
	var fields map[string]any
	if json.Unmarshal(data, &fields) != nil {
		return []string{"a single value"}
	}
	return slices.Sorted(maps.Keys(fields))
}

// A round has a process of its own, and leaves what it would leave without.
func TestRoundsInProcesses(t *testing.T) {
	ids := []string{"breakdown", "table3"}
	if testing.Short() {
		ids = ids[:1]
	}
	for _, id := range ids {
		dir, whole := t.TempDir(), t.TempDir()
		fresh := testkit.Must(runQuietly(t.Context(), inFreshProcesses(t, id, dir)))(t)
		here := inFreshProcesses(t, id, whole)
		here.Executable = ""
		shared := testkit.Must(runQuietly(t.Context(), here))(t)
		got, sessions := recordsOf(t, dir, id)
		want, _ := recordsOf(t, whole, id)
		byName := map[string]*records.Record{}
		for _, r := range want {
			byName[r.Sample] = r
		}
		rounds := map[int]string{} // process of each
		for _, r := range got {
			w := byName[r.Sample]
			if w == nil || w.Seed != r.Seed || !slices.Equal(keysOf(t, w.Data), keysOf(t, r.Data)) {
				t.Errorf("%s, %s: seed %d, keys %v; in this process %+v", id, r.Sample, r.Seed, keysOf(t, r.Data), w)
			}
			delete(byName, r.Sample)
			var round int
			if _, after, ok := strings.Cut(r.Sample, "round="); !ok {
				continue
			} else if _, err := fmt.Sscanf(after, "%d", &round); err != nil {
				t.Fatal(err)
			}
			p := sessions[r.Session].Process
			if p == nil || p.ID == os.Getpid() || p.Round == nil || *p.Round != round {
				t.Errorf("%s, %s: measured by %+v; want a process of round %d's own", id, r.Sample, p, round)
			}
			rounds[round] = cmp.Or(rounds[round], r.Session)
			testkit.Equal(t, rounds[round], r.Session, "%s, round %d ran in two processes", id, round)
		}
		if len(byName) > 0 || len(rounds) != 2 || rounds[0] == rounds[1] {
			t.Errorf("%s: %d samples are missing, processes %v", id, len(byName), rounds)
		}
		for _, c := range []struct {
			report *lab.Report
			want   string
		}{{fresh, "Processes: a fresh one for each of the 2 rounds."}, {shared, "Processes: 1 for 2 rounds"}} {
			testkit.Has(t, strings.Join(c.report.Tables[0].Notes, "\n"), c.want)
		}
	}
}

// Another pipeline is first in every round, and a round's order is that in which
// its samples are named.
func TestRoundsRotate(t *testing.T) {
	r := &timed.Rounds{Count: 4}
	for _, name := range []string{"a", "b", "c"} {
		r.Runs = append(r.Runs, timed.Run{Name: name, Steps: 1})
	}
	var got []string
	for _, names := range r.Samples() {
		var order string
		for _, name := range names {
			order += name[:1]
		}
		got = append(got, order)
	}
	testkit.EqualAll(t, got, []string{"abc", "bca", "cab", "abc"}, "orders")
	for round, names := range r.Samples() {
		for i, run := range r.Order(round) {
			testkit.Equal(t, names[i], run.Sample(round, 0), "round %d", round)
		}
	}
}

// What a round's process does wrong is one line, and takes away nothing that is
// there.
func TestRoundProcessErrors(t *testing.T) {
	testkit.CI(t)
	for does, want := range map[string]string{
		"fails":          "breakdown, round 0: its process ended early (exit status 1): out of paper",
		"panics":         "breakdown, round 0: its process ended early (exit status 2): panic: runtime error: invalid memory address or nil pointer dereference",
		"prints rubbish": `breakdown, round 0: its process: it printed what is no record, "rubbish": `,
		"is killed":      "breakdown, round 0: its process was ended by a signal (9, killed)",
		"is quit":        "breakdown, round 0: its process was ended by a signal (SIGQUIT, quit)",
		"says nothing":   "breakdown, round 0: its process ended early (exit status 1): it said nothing",
		"does nothing":   "breakdown, round 0: it ended without sample K=2/round=0/step=0",
	} {
		t.Setenv(asRound, does)
		_, err := runQuietly(t.Context(), inFreshProcesses(t, "breakdown", t.TempDir()))
		testkit.FailsFirst(t, err, want)
	}
	t.Setenv(asRound, "")
	r := inFreshProcesses(t, "breakdown", t.TempDir())
	r.Executable = filepath.Join(t.TempDir(), "none")
	testkit.Refused(runQuietly(t.Context(), r))(t, "its process does not start")
}

// A record that a process prints must be one that was asked for, whole, and of
// this log's key.
func TestAdopt(t *testing.T) {
	line := func(r records.Record) []byte { return testkit.Must(r.Encode())(t) }
	own := records.Key{Experiment: "e", Profile: "smoke"}
	log := records.New(own)
	good := line(records.Record{Key: own, Sample: "a", Seed: 3, Data: []byte("1")})
	for _, c := range []struct {
		line []byte
		want string
	}{
		{[]byte("1/7  a"), "no record"},
		{bytes.Replace(good, []byte(`"data":1`), []byte(`"data":2`), 1), "no record"},
		{line(records.Record{Key: own, Sample: "c", Data: []byte("1")}), "was not asked for"},
		{line(records.Record{Key: records.Key{Experiment: "e", Profile: "full"}, Sample: "a", Data: []byte("1")}), "profile full"},
	} {
		testkit.Fails(t, log.Adopt(c.line, []string{"a", "b"}), c.want)
	}
	testkit.NoError(t, log.Adopt(good, []string{"a", "b"}))
	testkit.EqualAll(t, log.Names, []string{"a"})
	testkit.EqualAll(t, log.Seeds(), []uint64{3})
	testkit.Fails(t, log.Adopt(good, []string{"a", "b"}))
}

// A round that was interrupted goes on in another process with what it lacks, by
// the partition that it began with.
func TestRoundGoesOn(t *testing.T) {
	testkit.CI(t)
	dir := t.TempDir()
	e := smallSpec(t, "breakdown", dir)
	name := filepath.Join(dir, "records", "breakdown.jsonl")
	log := testkit.Must(records.Open(name, e.Key("smoke"), false))(t)
	first := &timed.Sample{
		Seconds: 1, F: [][]int64{make([]int64, 16), make([]int64, 16)}, R: [][]int64{make([]int64, 16), make([]int64, 16)}, B: [][]int64{make([]int64, 16), make([]int64, 16)},
		Setup: []int64{1, 1}, Update: []int64{1, 1}, Partition: []int{1, 7}, Peak: []int64{1, 1}, HighWater: []int64{1, 1},
	}
	testkit.NoError(t, errors.Join(log.Add("K=2/round=0/step=0", 1, first), log.Close()))
	report := testkit.Must(runQuietly(t.Context(), inFreshProcesses(t, "breakdown", dir)))(t)
	all, _ := recordsOf(t, dir, "breakdown")
	times := map[string]int{}
	for _, r := range all {
		times[r.Sample]++
		if r.Sample == "K=2/round=1/step=0" {
			var s timed.Sample
			testkit.NoError(t, json.Unmarshal(r.Data, &s))
			testkit.EqualAll(t, s.Partition, first.Partition, "partition, and that of the first round")
		}
	}
	testkit.Equal(t, len(times), 8, "samples")
	testkit.Equal(t, len(all), 8, "records")
	testkit.Has(t, strings.Join(report.Tables[0].Notes, "\n"), "Processes: 3 for 2 rounds")

	// The same with a round's own process cut short.
	dir = t.TempDir()
	testkit.Must(runQuietly(t.Context(), inFreshProcesses(t, "breakdown", dir)))(t)
	name = filepath.Join(dir, "records", "breakdown.jsonl")
	text := testkit.Must(os.ReadFile(name))(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	testkit.NoError(t, os.WriteFile(name, bytes.Join(lines[:len(lines)-3], nil), 0o600)) // two samples less
	report = testkit.Must(runQuietly(t.Context(), inFreshProcesses(t, "breakdown", dir)))(t)
	testkit.Has(t, strings.Join(report.Tables[0].Notes, "\n"), "a fresh one for each of the 2 rounds. Interrupted rounds that continued in another process: 1.")
}

// request is what a process for a round of an experiment's smoke profile reads.
func request(t testing.TB, id string, change func(*timed.RoundRequest)) string {
	t.Helper()
	e := testkit.Must(Load(id))(t)
	r := &timed.RoundRequest{Key: e.Key("smoke"), Engine: gpipebench.Engine()}
	if change != nil {
		change(r)
	}
	text := testkit.Must(json.Marshal(r))(t)
	return string(text) + "\n"
}

// A process refuses a request that it cannot measure, and ends early when its parent
// is gone.
func TestRoundErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "it is reproduce that starts this"},
		{"table2\n", "it is reproduce that starts this"},
		{`{"key":{"experiment":"table9"}}` + "\n", `unknown experiment "table9"`},
		{request(t, "learning", nil), "not measured in rounds"},
		{request(t, "breakdown", func(r *timed.RoundRequest) { r.Round = 2 }), "round 2: want 0 to 1"},
		{request(t, "breakdown", func(r *timed.RoundRequest) { r.Engine = "another" }), "another program"},
		{request(t, "breakdown", func(r *timed.RoundRequest) {
			r.Spec = []lab.SpecFile{{Name: "mine.yaml", Experiment: "breakdown", Text: []byte("experiment: breakdown\nrounds: 3\n")}}
		}), "mine.yaml:2:1: unknown field rounds"},
		{request(t, "breakdown", nil), "context canceled"}, // the input ends after the request
	} {
		var out bytes.Buffer
		testkit.Fails(t, Round(t.Context(), strings.NewReader(c.in), &out), c.want)
	}
}

// Whatever a process is asked, it refuses in one line; what it may measure ends with
// the context.
func FuzzRound(f *testing.F) {
	for _, change := range []func(*timed.RoundRequest){
		nil,
		func(r *timed.RoundRequest) { r.Round = -1 },
		func(r *timed.RoundRequest) {
			r.Samples = map[string]json.RawMessage{"K=2/round=0/step=0": []byte("{}")}
		},
		func(r *timed.RoundRequest) { r.Spec = []lab.SpecFile{{Name: "x.yaml", Text: []byte("k: [1]\n")}} },
	} {
		f.Add(request(f, "breakdown", change))
	}
	for _, text := range []string{"", "[]\n", "null\n", "{\"key\":5}\n", request(f, "learning", nil)} {
		f.Add(text)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	f.Fuzz(func(t *testing.T, text string) {
		err := Round(ended, strings.NewReader(text), io.Discard)
		testkit.Fails(t, err)
	})
}

// An interrupted run ends at once, and its process with it.
func TestInterruptedRound(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dir := t.TempDir()
	err := inFreshProcesses(t, "breakdown", dir).Run(ctx, stopAtFirst{progress.Silent{}, stop}, func(lab.Experiment, *lab.Report) error { return nil })
	testkit.Is(t, err, context.Canceled)
	all, sessions := recordsOf(t, dir, "breakdown")
	if len(all) == 0 || len(all) == 8 {
		t.Errorf("%d records", len(all))
	}
	for _, s := range sessions {
		waitUntilGone(t, s.Process.ID)
	}
}

type stopAtFirst struct {
	progress.Silent
	stop func()
}

func (s stopAtFirst) Advance(string) { s.stop() }

// The process of a round ends with the one that started it, even if that is
// killed.
func TestKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	dir := t.TempDir()
	smallSpec(t, "breakdown", dir)
	parent := startKilled(t, dir, true)
	parent.steps(2) // the beginning, and a sample
	_ = parent.Process.Kill()
	_ = parent.Wait()
	_, sessions := recordsOf(t, dir, "breakdown")
	if len(sessions) == 0 {
		t.Fatal("no process left a record")
	}
	for _, s := range sessions {
		waitUntilGone(t, s.Process.ID)
	}
}

// waitUntilGone waits for a process to end, which it does soon or never.
func waitUntilGone(t *testing.T, id int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for range 1200 { // a minute
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return
		}
		// proc(5): the state is after the name, which is in parentheses.
		if _, after, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(after, "Z") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("process %d is still there", id)
}
