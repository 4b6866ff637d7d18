package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"gpipebench"
	"gpipebench/internal/testkit"
)

// asCommand makes the test's binary the command itself.
const asCommand = "GPIPEBENCH_TEST_AS_COMMAND"

// asEngine names the engine of a process. It stands for the digest of the sources, which hundreds
// of processes would take.
const asEngine = "GPIPEBENCH_TEST_ENGINE"

// program is the test's binary, which is the command in whatever process tests start.
var program string

func TestMain(m *testing.M) {
	gpipebench.Engine = func() string { return cmp.Or(os.Getenv(asEngine), "0123456789abcdef") }
	if os.Getenv(asCommand) != "" {
		once = time.Hour // signals of a busy machine come slowly
		main()
	}
	status, err := testAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func testAll(m *testing.M) (status int, err error) {
	if err := os.Setenv(asCommand, "1"); err != nil {
		return 0, err
	}
	// In a directory of the go command's the program would ask git for its commit whenever it
	// is started.
	if program, err = os.Executable(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "gpipebench-test-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if elsewhere := filepath.Join(dir, "gpipebench"); os.Link(program, elsewhere) == nil {
		program = elsewhere
	}
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue { // most tests of processes wait
		if err := p.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0))); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// execute runs a command line in this process.
func execute(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(context.Background(), args, &out, &err)
	return status, out.String(), err.String()
}

// succeeds runs a command line in this process, which must not fail.
func succeeds(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	status, stdout, stderr := execute(t, args...)
	if status != 0 {
		t.Fatalf("%.300q: exit status %d, %s", args, status, stderr)
	}
	return stdout, stderr
}

// decodedJSON is what a command line prints with --json in this process.
func decodedJSON[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	stdout, _ := succeeds(t, append(args, "--json")...)
	testkit.NoError(t, json.Unmarshal([]byte(stdout), &v), "%.300q prints %.500q", args, stdout)
	return v
}

// fails runs a command line in this process, which ends with the exit status and says why;
// of a mistake in the line itself in one line, and prints nothing.
func fails(t *testing.T, status int, why string, args ...string) {
	t.Helper()
	got, stdout, stderr := execute(t, args...)
	if got != status || !strings.Contains(stderr, why) || status == 2 && (strings.Count(stderr, "\n") != 1 || stdout != "") {
		t.Errorf("%.300q: exit status %d, %s\nwant %d and %s; it prints %.300q", args, got, stderr, status, why, stdout)
	}
}

// tiny makes a network that trains in milliseconds.
var tiny = strings.Fields("--layers 2 --dim 16 --ff 32 --heads 2 --seq 8 --batch 4")

// TestFlagsSayWhatTheyTake: whatever is wrong with any flag's value, the message
// has the flag's own name and what it takes, in this program's words, and shows
// the value without what a terminal obeys and not at any length.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		if c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "string" {
				return
			}
			for _, wrong := range []string{"\x1b[31mred\x07", strings.Repeat("x", 10_000), strings.Repeat("1 2,", 3_000), "-9e99"} {
				err := c.ParseFlags([]string{"--" + f.Name + "=" + wrong})
				if err == nil {
					t.Errorf("%s --%s %.20q: no error", c.Name(), f.Name, wrong)
					continue
				}
				text, status := complaint(c.FlagErrorFunc()(c, err))
				if status != 2 || !strings.Contains(text, "--"+f.Name) || !strings.Contains(text, "want ") && !strings.Contains(text, "unknown ") {
					t.Errorf("%s --%s %.20q: exit status %d, %q", c.Name(), f.Name, wrong, status, text)
				}
				if len(text) > 1200 || strings.ContainsAny(text, "\x1b\x07\n") || strings.Contains(text, "strconv") || strings.Contains(text, "<nil>") {
					t.Errorf("%s --%s %.20q: %.300q", c.Name(), f.Name, wrong, text)
				}
			}
		})
	}
}

// TestNothingRawIsPrinted: names that are given are shown without what a terminal
// obeys, and not at any length.
func TestNothingRawIsPrinted(t *testing.T) {
	testkit.NotRaced(t)
	for _, raw := range []string{"\x1b[31mred\nline \u202ereversed bad\xff", strings.Repeat("long", 50_000)} {
		for _, args := range [][]string{
			{raw}, {"train", raw}, {"help", raw}, {"train", "--" + raw}, {"train", "--model", raw}, {"train", "--data", raw}, {"train", "--load", raw},
			{"train", "--data", "text:" + raw}, {"train", "--trace", filepath.Join(raw, "x")}, {"simulate", "--device", raw}, {"simulate", "--device", raw + ".yaml"},
			{"reproduce", "--only", raw}, {"table2", "--spec", raw}, {"verify", "--results", raw}, {"report", "--results", raw}, {"calibrate", "--name", raw},
			{"train", "--model", "transformer", "--data", "gettext:" + raw}, {"train", "--model", "transformer", "--data", "gettext:x," + raw}, {"train", "--tied", raw}, {"train", "--lr-schedule", raw},
		} {
			status, _, stderr := execute(t, args...)
			if status == 0 || strings.Count(stderr, "\n") != 1 || len(stderr) > 1500 || strings.ContainsAny(stderr, "\x1b\u202e") || !utf8.ValidString(stderr) {
				t.Errorf("%.60q: exit status %d, %.300q", args, status, stderr)
			}
		}
	}
}

// TestOutputThatCannotBeWritten is a failure, of help as of anything else.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range []string{"--help", "train --help", "help train", "version", "completion bash", "describe --layers 1 --json"} {
		var stderr bytes.Buffer
		status := run(context.Background(), strings.Fields(args), full{}, &stderr)
		if got := stderr.String(); status != 1 || got != "gpipebench: standard output: no space left on device\n" {
			t.Errorf("%s: exit status %d, %q", args, status, got)
		}
	}
}

// full is a device that is.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// keys checks that a JSON document is an object with at least these keys.
func keys(t *testing.T, document string, names ...string) map[string]any {
	t.Helper()
	var m map[string]any
	testkit.NoError(t, json.Unmarshal([]byte(document), &m), "in %s", document)
	for _, n := range names {
		if _, ok := m[n]; !ok {
			t.Errorf("no key %q in %s", n, document)
		}
	}
	return m
}

func TestTrainJSON(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	hash := ""
	for _, how := range []string{"", "-k 4 -m 2 --device emulated --schedule 1f1b", "-k 2 -m 3 --cost time --checkpoint except-last", "--cost memory -k 3 --split fine"} {
		args := append([]string{"train", "--json", "--steps", "3", "--eval-every", "1", "--trace", trace}, append(tiny, strings.Fields(how)...)...)
		stdout, _ := succeeds(t, args...)
		m := keys(t, stdout, "weights_sha256", "losses", "eval", "peak_bytes", "examples_per_second")
		got := m["weights_sha256"].(string)
		hash = cmp.Or(hash, got)
		testkit.Equal(t, got, hash, "%v: weights", args)
		testkit.Equal(t, len(hash), 64, "digits of %s", hash)
		testkit.Equal(t, len(m["losses"].([]any)), 3, "losses of 3 steps")
		raw := testkit.Must(os.ReadFile(trace))(t)
		keys(t, string(raw), "traceEvents")
	}
}

// A training that diverges and stays finite has an outcome, which is printed: its
// perplexity has no number.
func TestTrainJSONDiverged(t *testing.T) {
	args := append(strings.Fields("train --json --steps 3 --lr 10 --lr-schedule constant --clip-norm 0"), tiny...)
	stdout, _ := succeeds(t, args...)
	eval := keys(t, stdout, "weights_sha256", "losses", "eval")["eval"].(map[string]any)
	if loss, ok := eval["loss"].(float64); !ok || loss < 710 || eval["perplexity"] != "Infinity" {
		t.Errorf("loss %v, perplexity %v: want a loss above 710 and \"Infinity\"", eval["loss"], eval["perplexity"])
	}
}

// Weights before the first step are saved and evaluated, and are those that a
// training begins with.
func TestTrainInitialWeights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initial")
	train := func(how string) map[string]any {
		t.Helper()
		stdout, _ := succeeds(t, append(strings.Fields("train --json "+how), tiny...)...)
		return keys(t, stdout, "weights_sha256", "initial_sha256", "losses", "eval")
	}
	saved := train("--steps 0 --ema 0.9 --save " + file)
	if n := len(saved["losses"].([]any)); n != 0 || saved["weights_sha256"] != saved["initial_sha256"] {
		t.Errorf("%d losses, weights %v, initial ones %v", n, saved["weights_sha256"], saved["initial_sha256"])
	}
	if saved["eval"].(map[string]any)["loss"].(float64) < 1 {
		t.Errorf("held out: %v", saved["eval"])
	}
	loaded, plain := train("--steps 3 --seed 1 --load "+file), train("--steps 3 --seed 1")
	testkit.Equal(t, loaded["initial_sha256"], saved["weights_sha256"], "weights in the file")
	testkit.Equal(t, loaded["weights_sha256"], plain["weights_sha256"], "weights trained from the file")
}

func TestTrainText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text.txt")
	testkit.NoError(t, os.WriteFile(name, []byte(strings.Repeat("the quick brown fox jumps over the lazy dog. ", 40)), 0o600))
	stdout, stderr := succeeds(t, append([]string{"train", "--data", "text:" + name, "--epochs", "1", "--timeline", "-k", "2"}, tiny...)...)
	testkit.Has(t, stdout, "bits per byte", "baseline 3-gram", "= high-water mark", "closed form", "weights SHA-256", "examples/s", "F forward")
	testkit.Has(t, stderr, "step 1/", "loss", "lr ", "closed form")
}

func TestOtherCommands(t *testing.T) {
	testkit.NotRaced(t)
	stdout, _ := succeeds(t, append(strings.Fields("bench --json --steps 2 --warmup 1 --vocab 16 -k 2"), tiny...)...)
	m := keys(t, stdout, "step_seconds", "peak_bytes", "max_rss_bytes")
	testkit.Equal(t, len(m["step_seconds"].(map[string]any)["all"].([]any)), 2, "bench: times of 2 steps")
	testkit.Equal(t, m["by_op"], nil, "bench: a profile that was not asked for")

	stdout, _ = succeeds(t, append(strings.Fields("bench --by-op --steps 2 --vocab 16 -k 2"), tiny...)...)
	testkit.Has(t, stdout, "backward   matmul-at ", "forward    cross-entropy ", "clear gradients", "update", "besides kernels", "copies between stages", "waiting", "all", "GFLOP/s in a matrix product")
	if strings.Contains(stdout, "NaN") || strings.Contains(stdout, "Inf") {
		t.Errorf("bench --by-op:\n%s", stdout)
	}

	stdout, _ = succeeds(t, strings.Fields("describe --json --layers 1 --dim 2048 --ff 8192 --heads 32 --vocab 32000 --seq 1024 -k 3")...)
	m = keys(t, stdout, "params", "layers", "partition")
	layer := m["layers"].([]any)[1].(map[string]any)
	for _, key := range []string{"name", "params", "flops", "out_shape", "saved_bytes"} {
		if layer[key] == nil {
			t.Errorf("describe: no %s in %v", key, layer)
		}
	}
	// A Transformer layer of the paper's Table 1.
	testkit.Equal(t, layer["params"].(float64), 50358272, "describe: parameters of a layer")
	if p := m["partition"].(map[string]any); len(p["sizes"].([]any)) != 3 || p["efficiency"].(float64) > 1 {
		t.Errorf("describe: partition %v", p)
	}

	// The largest network of the paper's Table 1, from shapes alone.
	stdout, _ = succeeds(t, strings.Fields("describe --json --model amoebanetd --layers 72 --filters 512 -k 8")...)
	m = keys(t, stdout, "params", "layers", "partition")
	if n := len(m["layers"].([]any)); m["params"].(float64) != 1844858344 || n != 78 {
		t.Errorf("describe: amoebanetd of %v parameters in %d layers, want 1844858344 in 78", m["params"], n)
	}
	if p := m["partition"].(map[string]any); len(p["sizes"].([]any)) != 8 || p["efficiency"].(float64) < 0.9 {
		t.Errorf("describe: partition %v", p)
	}

	trace := filepath.Join(t.TempDir(), "trace.json")
	stdout, _ = succeeds(t, strings.Fields("simulate --json --layers 6 --dim 256 --ff 1024 --heads 4 -k 4 -m 8 --batch 16 --device tpuv3 --trace "+trace)...)
	m = keys(t, stdout, "step_seconds", "examples_per_second", "bubble_fraction", "devices")
	device := m["devices"].([]any)[3].(map[string]any)
	for _, key := range []string{"param_bytes", "activation_bytes", "peak_bytes", "busy_seconds"} {
		if device[key] == nil {
			t.Errorf("simulate: no %s in %v", key, device)
		}
	}
	testkit.Must(os.Stat(trace))(t)

	for _, args := range []string{"version", "version --json", "--help", "train --help", "describe -k 2", "simulate -k 2 --timeline", "plan --layers 4 --devices 3 --batch 4", "plan --device tpuv3 --search all --layers 4 --devices 2 --batch 4", "plan --model resnet50 --max-batch 64 --json", "simulate -k 3 --cost time --accounting full --keep-scores --fused off --tiled off", "bench --steps 1 --layers 1 --dim 16 --ff 16 --heads 1",
		"bench --steps 1 --model amoebanetd --layers 3 --filters 8 --image 32 --batch 4 -m 2 -k 2 --classes 10 --aux 0.4 --cost time",
		"bench --steps 1 --model resnet50 --width 4 --image 32 --batch 2 -k 2 --classes 10",
		"describe --model resnet101 -k 4 --split fine", "simulate --model amoebanetd --layers 18 --filters 256 -k 8 -m 32 --batch 128 --optimizer rmsprop"} {
		if stdout, _ := succeeds(t, strings.Fields(args)...); stdout == "" {
			t.Errorf("%s prints nothing", args)
		}
	}
}

func TestConsistencyCommand(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir := t.TempDir()
	stdout, _ := succeeds(t, "consistency", "--profile", "smoke", "--out", dir, "--reference", "")
	testkit.Has(t, stdout, "Verdict: all ")
	for _, name := range []string{"records/consistency.jsonl", "tables/consistency.md", "tables/consistency.csv"} {
		testkit.Must(os.Stat(filepath.Join(dir, name)))(t)
	}
	// Again: nothing is measured.
	again, stderr := succeeds(t, "consistency", "--profile", "smoke", "--out", dir, "--reference", "")
	testkit.Equal(t, again, stdout, "once more")
	testkit.Has(t, stderr, "used again")
}
