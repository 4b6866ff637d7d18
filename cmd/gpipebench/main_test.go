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
	"os/signal"
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
	"gpipebench/experiments"
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

// tiny makes a network that trains in milliseconds.
var tiny = strings.Fields("--layers 2 --dim 16 --ff 32 --heads 2 --seq 8 --batch 4")

func TestErrorsAreOneLine(t *testing.T) {
	testkit.CI(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.txt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		want   string // part of the message
	}{
		{"frobnicate", 2, `unknown command "frobnicate": want`},
		{"train extra", 2, `unexpected argument "extra"`},
		{"train --frob", 2, "unknown flag: --frob"},
		{"train --save one --trace ./one", 2, "--save and --trace both name"},
		{"train --save one --trace " + dir + "/../" + filepath.Base(dir) + "/x --save " + dir + "/x", 2, "--save and --trace both name"},
		{"simulate --trace " + dir + "/x --memory " + dir + "/./x", 2, "--trace and --memory both name"},
		{"train --steps 0 --save " + dir + "/x --timeline", 2, "no step, and so no timeline"},
		{"train --steps 0 --save " + dir + "/x --curve x.svg", 2, "no step, and so no timeline or curve"},
		{"train --log one --curve ./one", 2, "--log and --curve both name"},
		{"train -k", 2, "needs an argument"},
		{"train -k two", 2, `invalid argument "two" for "-k, --partitions"`},
		{"train --schedule zigzag", 2, `unknown schedule "zigzag": want gpipe, naive, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min or dualpipe-v`},
		{"train --checkpoint sometimes", 2, "want always, except-last or never"},
		{"train --partitioner guess", 2, "want min-max, min-variance, lingvo or block"},
		{"train --cost money", 2, "want flops, time, memory"},
		{"train --split thin", 2, "want coarse, fine"},
		{"train --balance 1,0", 2, "want whole numbers from 1"},
		{"train --device gpu", 2, "want host or emulated"},
		{"train --memory-cap lots", 2, "not an amount of memory"},
		{"train --link-latency soon", 2, "want a duration"},
		{"train --link-latency 1ms", 2, "want emulated devices"},
		{"train --optimizer newton", 2, "want sgd, momentum, nesterov, adam, adamw"},
		{"train --lr-schedule zigzag", 2, "want constant"},
		{"train --lr-schedule batch/0,constant", 2, "want batch/N"},
		{"train --lr-schedule exponential:0.97:2.4epochs", 2, "there are no epochs"},
		{"train --ema 1", 2, "--ema\" flag: want a number of at least 0 and less than 1"},
		{"train --save-ema --save x", 2, "no decay"},
		{"train --save-ema --ema 0.9", 2, "no file"},
		{"train --lr -1", 2, "want a number above 0"},
		{"train --steps 1 --epochs 1", 2, "want one of them"},
		{"train --steps 0", 2, "neither steps nor epochs"},
		{"train --steps -1", 2, "want a whole number from 0 to 2147483647"},
		{"train --epochs 1", 2, "no epochs"},
		{"train --batch 0", 2, "want a whole number from 1 to 16777216"},
		{"train --label-smoothing 1", 2, "want a number of at least 0 and less than 1"},
		{"train --dropout 1", 2, "want a number of at least 0 and less than 1"},
		{"train --heads 3", 2, "3 heads do not divide"},
		{"train --clip-norm -1", 2, "want a number of 0 or more"},
		{"train --threads -1", 2, "threads"},
		{"train --model resnet18", 2, "want transformer-lm"},
		{"train --model resnet50 --data text:" + empty, 1, "empty.txt"},
		{"train --model resnet50 --data synthetic-translation", 2, "has no images, which resnet50 takes: want synthetic, cifar10:DIR"},
		{"train --data synthetic-images", 2, "has images, which transformer-lm does not take"},
		{"train --model resnet50 --data images:" + filepath.Join(dir, "missing"), 1, "missing"},
		{"train --model resnet50 --image 5", 2, "want 8 to 1024"},
		{"train --model resnet50 --noise 2", 2, "want a number from 0 to 1"},
		{"train --model resnet50 --crop 33", 2, "want 0 to 32"},
		{"train --model resnet50 --classes 50", 2, "50 classes, want 2 to 20"},
		{"train --model resnet50 --dropout 0.1", 2, "no dropout"},
		{"train --model resnet50 --aux 0.4", 2, "want it with amoebanetd"},
		{"train --model resnet50 --filters 8", 2, "--filters: resnet50 has no such thing"},
		{"train --model amoebanetd --heads 8", 2, "--heads: amoebanetd has no such thing"},
		{"train --filters 8", 2, "--filters: transformer-lm has no such thing"},
		{"train --model resnet50 --generate 5", 2, "--generate: resnet50 has no such thing: want it with transformer-lm"},
		{"train --translations x.csv", 2, "--translations: transformer-lm has no such thing: want it with transformer"},
		{"bench --image 8", 2, "--image: transformer-lm has no such thing"},
		{"train --model amoebanetd --filters 7", 2, "multiple of 8"},
		{"train --model amoebanetd --drop-path 1", 2, "want a number of at least 0 and less than 1"},
		{"train --model amoebanetd --epochs 1 --steps 1", 2, "want one of them"},
		{"bench --model resnet50 --width -1", 2, "want a whole number from 0 to 65536"},
		{"bench --model amoebanetd --layers 7", 2, "multiple of 3"},
		{"bench --model amoebanetd --aux -1", 2, "want a number from 0 to"},
		{"describe --model resnet50 --delayed", 2, "--delayed: resnet50 has no such thing: want it with amoebanetd"},
		{"simulate --model amoebanetd --image 16", 2, "too small"},
		{"train --data coco:x", 2, "want synthetic or text:FILE"},
		{"train --data text:", 2, "no file"},
		{"train --layers 2 -k 5", 2, "5 partitions of 4 layers"},
		{"train --layers 2 -k 0", 2, "want a whole number from 1 to 1048576"},
		{"train --batch 4 -m 5", 2, "5 micro-batches of a mini-batch of 4"},
		{"train -m 0", 2, "want a whole number from 1 to 16777216"},
		{"train --layers 2 -k 2 --balance 1,1", 2, "layers"},
		{"train --data text:" + filepath.Join(dir, "missing.txt"), 1, "missing.txt"},
		{"train --data text:" + empty, 1, "empty"},
		{"train --data text:" + dir, 1, "directory"},
		{"train --trace " + filepath.Join(dir, "no", "such", "trace.json"), 1, "cannot be written: no such file or directory"},
		{"train --trace " + dir, 1, "is a directory"},
		{"train -k 2 --layers 2 --memory-cap 64KiB", 1, "device 0 is out of memory at layer embedding"},
		{"bench --steps 0", 2, "want a whole number from 1 to"},
		{"bench --warmup -1", 2, "want a whole number from 0 to"},
		{"describe -k 99", 2, "99 partitions"},
		{"simulate --device abacus", 2, `unknown accelerator "abacus": want`},
		{"simulate --dtype f8", 2, "want bf16 or f32"},
		{"simulate --accounting all", 2, "want paper or full"},
		{"calibrate --filters 32", 2, "--filters: of which network? want --model as well"},
		{"calibrate --model resnet50 --filters 32", 2, "--filters: resnet50 has no such thing"},
		{"calibrate --model resnet50 --width 8 --image 32 --batch 4 -m 5", 2, "5 micro-batches"},
		{"calibrate --model resnet50 --width 8 --image 32 --batch 4 --micro-batches 5", 2, "5 micro-batches"},
		{"calibrate --model resnet50 --width 8 --image 32 --batch 4 --microbatches 5", 2, "5 micro-batches"}, // as it was called
		{"calibrate --optimizer none", 2, "want "},
		{"plan --devices 0", 2, "want a whole number from 1 to"},
		{"plan --layers 4000 --dim 4096 --ff 16384 --devices 2", 1, "do not fit 2 x tpuv3"},
		{"plan --layers 3 --dim 4096 --ff 16384 --heads 8 --seq 4096 --batch 2 --devices 1 --device tpuv2", 1, "nothing fits 1 x tpuv2"},
		{"simulate --fused maybe", 2, "want on, off or file"},
		{"simulate --device none.yaml", 1, "none.yaml"},
		{"table2 --profile huge", 2, "want smoke, quick, full"},
		{"table2 --format pdf", 2, "want text, markdown, csv, json"},
		{"reproduce --only=", 2, "want table1, "},
		{"reproduce --only table2,table2", 2, "experiment \"table2\" is named twice: want it once"},
		{"reproduce --only table9", 2, "want " + strings.Join(experiments.IDs(), ", ")},
		{"corpus", 2, "out"},
		{"data", 2, "0 arguments: want one, gettext:DIR[,LANG...]"},
		{"data gettext:a gettext:b", 2, "2 arguments: want one"},
		{"data synthetic", 2, "want gettext:DIR[,LANG...]"},
		{"data gettext:x,en_GB", 2, "language en_GB is English"},
		{"data gettext:" + filepath.Join(dir, "missing"), 1, "missing: no such file or directory"},
		{"data gettext:x --format pdf", 2, "want text, markdown, csv, json"},
		{"train --model transformer --data gettext:x,a/b", 2, "want the name of a folder in x"},
		{"train --model transformer --data gettext:" + filepath.Join(dir, "missing"), 1, "missing: no such file or directory"},
		{"train --model transformer --pairs 50 --from-english", 2, "want gettext:DIR"},
		{"train --model gnmt --pairs 50 --input-hosts 2", 2, "want a window of 1 or more mini-batches"},
		{"train --data gettext:x", 1, "x: no such file or directory"},
		{"train --model transformer --data synthetic", 2, "want synthetic-translation, parallel:SRC,TGT or gettext:DIR"},
		{"train --data synthetic-translation", 2, "or the model transformer"},
		{"train --model transformer --data parallel:one", 2, "want two files for each language"},
		{"train --model transformer --data parallel:" + empty + "," + empty, 1, "empty.txt"},
		{"train --model transformer --data parallel:" + filepath.Join(dir, "missing") + "," + empty, 1, "missing"},
		{"train --model transformer --tied some", 2, "want none, softmax or all"},
		{"train --model transformer --beam -1", 2, "want a whole number from 1 to 256"},
		{"train --model transformer --temperature 0.5", 2, "want a number of 1 or more"},
		{"train --model transformer --target-noise 2", 2, "want a number from 0 to 1"},
		{"train --model transformer --pairs 50 --heads 3", 2, "3 heads do not divide"},
		{"train --model transformer --pairs 50 --steps 0", 2, "neither steps nor epochs"},
		{"train --head-dim 3", 2, "want it with transformer"},
		{"train --temperature 2", 2, "want it with transformer"},
		{"train --model resnet50 --width 4 --image 32 --batch 1 -m 1", 2, "larger images (--batch, -m and sizes such as --image or --seq decide)"},
		{"simulate --model resnet50 --image 32 --batch 4 -m 4", 2, "(--batch, -m and sizes such as --image"},
		{"describe --layers 1000000000", 2, "want a whole number from 1 to 10000"},
		{"describe -k 1000000", 2, "want at most one partition a layer"},
		{"simulate --batch 1000000000000", 2, "want a whole number from 1 to"},
		{"simulate --batch 1000000 -m 1000000 -k 8", 2, "want a product of at most"},
		{"plan --max-batch 1000000000000", 2, "want a whole number from 0 to"},
		{"plan --max-batch 5", 2, "want 32, the mini-batch, or more"},
		{"bench --warmup 1000000000000", 2, "want a whole number from 0 to"},
		{"train --threads 0", 2, "want a whole number from 1 to 256"},
		{"train --beam 1000000000000 --model transformer --pairs 50", 2, "want a whole number from 1 to 256"},
		{"train --model resnet50 --data x --noise 0.1", 2, "want synthetic"},
		{"train --model amoebanetd --layers 4", 2, "amoebanet: layers is 4, want a multiple of 3"},
		{"train --model transformer --pairs 50 --heads 3", 2, "3 heads do not divide dim 64: want a divisor of dim, or head-dim"},
		{"train --format pdf", 2, "want text, json"},
		{"table2 --spec " + filepath.Join(dir, "missing.yaml"), 1, "missing.yaml"},
		{"table2 --spec " + empty, 1, "empty.txt:1:1: experiment \"\": want one of"},
		{"report --results " + filepath.Join(dir, "missing"), 1, "missing"},
		{"calibrate --name Host", 2, "want lower-case letters"},
		{"train --late-recompute=perhaps", 2, "want true or false"},
		{"train --help=perhaps", 2, "want true or false"},
		{"train --seed -1", 2, "want a whole number from 0 to 18446744073709551615"},
		{"train --dropout NaN", 2, "want a number of at least 0 and less than 1"},
		{"train --dropout 0.99999999999", 2, "want a number of at least 0 and less than 1"},
		{"train --lr 1e999", 2, "want a number above 0"},
		{"help frobnicate", 2, "unknown command"},
		{"completion csh", 2, "want bash, fish, powershell, zsh"},
		{"corpus --out=", 2, "--out: want the name of a file"},
		{"train --load " + empty + " --layers 1", 1, "empty.txt"},
		{"train --save " + dir, 1, "is a directory"},
	} {
		status, stdout, stderr := execute(t, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit status %d, %q; want %d and %q", c.args, status, stderr, c.status, c.want)
		}
		if stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: printed %q and %q; want one line, on standard error", c.args, stdout, stderr)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// TestOutIsCheckedFirst: what could not be written at the end is found before
// anything is measured.
func TestOutIsCheckedFirst(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range []struct{ args, file, dir, want string }{
		{"reproduce --profile full", "tables", "", "tables"},
		{"reproduce --profile full", "records", "", "records"},
		{"reproduce --profile full", "", "report.html", "report.html: is a directory"},
		{"table2 --profile full", "tables", "", "tables"},
	} {
		out := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(out, c.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.dir != "" {
			if err := os.Mkdir(filepath.Join(out, c.dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var stdout, stderr bytes.Buffer
		status := run(ctx, append(strings.Fields(c.args), "--out", out), &stdout, &stderr)
		stop()
		if status != 1 || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") > 2 {
			t.Errorf("%s, %s%s: exit status %d, %s", c.args, c.file, c.dir, status, stderr.String())
		}
	}
}

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
			{"corpus", "--out", filepath.Join(raw, "x")}, {"data", raw}, {"data", "gettext:" + raw}, {"data", "gettext:x," + raw}, {"train", "--tied", raw}, {"train", "--lr-schedule", raw},
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
	if err := json.Unmarshal([]byte(document), &m); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
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
		status, stdout, stderr := execute(t, args...)
		if status != 0 {
			t.Fatalf("%v: exit status %d, %s", args, status, stderr)
		}
		m := keys(t, stdout, "weights_sha256", "losses", "eval", "peak_bytes", "examples_per_second")
		got := m["weights_sha256"].(string)
		if hash == "" {
			hash = got
		}
		if got != hash || len(hash) != 64 {
			t.Errorf("%v: weights %s, want %s", args, got, hash)
		}
		if n := len(m["losses"].([]any)); n != 3 {
			t.Errorf("%d losses of 3 steps", n)
		}
		raw, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		keys(t, string(raw), "traceEvents")
	}
}

// A training that diverges and stays finite has an outcome, which is printed: its
// perplexity has no number.
func TestTrainJSONDiverged(t *testing.T) {
	args := append(strings.Fields("train --json --steps 3 --lr 10 --lr-schedule constant --clip-norm 0"), tiny...)
	status, stdout, stderr := execute(t, args...)
	if status != 0 {
		t.Fatalf("exit status %d, %s", status, stderr)
	}
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
		status, stdout, stderr := execute(t, append(strings.Fields("train --json "+how), tiny...)...)
		if status != 0 {
			t.Fatalf("%s: exit status %d, %s", how, status, stderr)
		}
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
	if loaded["initial_sha256"] != saved["weights_sha256"] || loaded["weights_sha256"] != plain["weights_sha256"] {
		t.Errorf("from the file: %v to %v, else %v to %v", loaded["initial_sha256"], loaded["weights_sha256"], plain["initial_sha256"], plain["weights_sha256"])
	}
}

// TestTrainEMA: the average of the weights is evaluated and can be saved, does
// not depend on how the network is run, and leaves the training as it is.
func TestTrainEMA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "average.safetensors")
	train := func(how string) (m, eval map[string]any) {
		t.Helper()
		args := append(strings.Fields("train --json --steps 5 --optimizer rmsprop --lr-schedule batch/256,constant "+how), tiny...)
		status, stdout, stderr := execute(t, args...)
		if status != 0 {
			t.Fatalf("%v: exit status %d, %s", args, status, stderr)
		}
		m = keys(t, stdout, "weights_sha256", "eval")
		return m, m["eval"].(map[string]any)
	}
	plain, plainEval := train("-k 1")
	one, oneEval := train("-k 1 --ema 0.99")
	four, fourEval := train("-k 4 -m 3 --ema 0.99 --save-ema --save " + file)
	loaded, loadedEval := train("--steps 0 -k 2 --load " + file)
	if plain["ema_sha256"] != nil || plainEval["averaged"] != nil {
		t.Errorf("without an average: %v, %v", plain["ema_sha256"], plainEval["averaged"])
	}
	if one["ema_sha256"] == nil || oneEval["averaged"] != true {
		t.Errorf("with an average: %v, %v", one["ema_sha256"], oneEval["averaged"])
	}
	if one["weights_sha256"] != plain["weights_sha256"] || four["weights_sha256"] != plain["weights_sha256"] || one["ema_sha256"] != four["ema_sha256"] {
		t.Errorf("weights %v, %v and %v; averages %v and %v", plain["weights_sha256"], one["weights_sha256"], four["weights_sha256"], one["ema_sha256"], four["ema_sha256"])
	}
	if loaded["weights_sha256"] != one["ema_sha256"] || loadedEval["loss"] != oneEval["loss"] || fourEval["loss"] != oneEval["loss"] {
		t.Errorf("loaded %v with loss %v, averaged %v with %v and %v", loaded["weights_sha256"], loadedEval["loss"], one["ema_sha256"], oneEval["loss"], fourEval["loss"])
	}
	if plainEval["loss"] == oneEval["loss"] {
		t.Errorf("the average has the loss of the weights, %v", oneEval["loss"])
	}
}

func TestTrainText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(name, []byte(strings.Repeat("the quick brown fox jumps over the lazy dog. ", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := execute(t, append([]string{"train", "--data", "text:" + name, "--epochs", "1", "--timeline", "-k", "2"}, tiny...)...)
	if status != 0 {
		t.Fatalf("exit status %d, %s", status, stderr)
	}
	for _, want := range []string{"bits per byte", "baseline 3-gram", "= high-water mark", "closed form", "weights SHA-256", "examples/s", "F forward"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, want := range []string{"step 1/", "loss", "lr ", "closed form"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}

func TestOtherCommands(t *testing.T) {
	testkit.NotRaced(t)
	status, stdout, stderr := execute(t, append(strings.Fields("bench --json --steps 2 --warmup 1 --vocab 16 -k 2"), tiny...)...)
	if status != 0 {
		t.Fatalf("bench: %d, %s", status, stderr)
	}
	m := keys(t, stdout, "step_seconds", "peak_bytes", "max_rss_bytes")
	if all := m["step_seconds"].(map[string]any)["all"].([]any); len(all) != 2 {
		t.Errorf("bench: %d times of 2 steps", len(all))
	}
	if m["by_op"] != nil {
		t.Error("bench: a profile that was not asked for")
	}

	profile := filepath.Join(t.TempDir(), "profile")
	status, stdout, stderr = execute(t, append(strings.Fields("bench --by-op --steps 2 --vocab 16 -k 2 --cpuprofile "+profile), tiny...)...)
	if status != 0 {
		t.Fatalf("bench --by-op: %d, %s", status, stderr)
	}
	for _, row := range []string{"backward   matmul-at ", "forward    cross-entropy ", "clear gradients", "update", "besides kernels", "copies between stages", "waiting", "all", "GFLOP/s in a matrix product"} {
		if !strings.Contains(stdout, row) {
			t.Errorf("bench --by-op has no %q:\n%s", row, stdout)
		}
	}
	if strings.Contains(stdout, "NaN") || strings.Contains(stdout, "Inf") {
		t.Errorf("bench --by-op:\n%s", stdout)
	}
	if raw, err := os.ReadFile(profile); err != nil || !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) { // gzip, as pprof's format says
		t.Errorf("a profile of %d bytes, %v", len(raw), err)
	}

	status, stdout, stderr = execute(t, strings.Fields("describe --json --layers 1 --dim 2048 --ff 8192 --heads 32 --vocab 32000 --seq 1024 -k 3")...)
	if status != 0 {
		t.Fatalf("describe: %d, %s", status, stderr)
	}
	m = keys(t, stdout, "params", "layers", "partition")
	layer := m["layers"].([]any)[1].(map[string]any)
	for _, key := range []string{"name", "params", "flops", "out_shape", "saved_bytes"} {
		if layer[key] == nil {
			t.Errorf("describe: no %s in %v", key, layer)
		}
	}
	// A Transformer layer of the paper's Table 1.
	if layer["params"].(float64) != 50358272 {
		t.Errorf("describe: a layer of %v parameters, want 50358272", layer["params"])
	}
	if p := m["partition"].(map[string]any); len(p["sizes"].([]any)) != 3 || p["efficiency"].(float64) > 1 {
		t.Errorf("describe: partition %v", p)
	}

	// The largest network of the paper's Table 1, from shapes alone.
	status, stdout, stderr = execute(t, strings.Fields("describe --json --model amoebanetd --layers 72 --filters 512 -k 8")...)
	if status != 0 {
		t.Fatalf("describe: %d, %s", status, stderr)
	}
	m = keys(t, stdout, "params", "layers", "partition")
	if n := len(m["layers"].([]any)); m["params"].(float64) != 1844858344 || n != 78 {
		t.Errorf("describe: amoebanetd of %v parameters in %d layers, want 1844858344 in 78", m["params"], n)
	}
	if p := m["partition"].(map[string]any); len(p["sizes"].([]any)) != 8 || p["efficiency"].(float64) < 0.9 {
		t.Errorf("describe: partition %v", p)
	}

	trace := filepath.Join(t.TempDir(), "trace.json")
	status, stdout, stderr = execute(t, strings.Fields("simulate --json --layers 6 --dim 256 --ff 1024 --heads 4 -k 4 -m 8 --batch 16 --device tpuv3 --trace "+trace)...)
	if status != 0 {
		t.Fatalf("simulate: %d, %s", status, stderr)
	}
	m = keys(t, stdout, "step_seconds", "examples_per_second", "bubble_fraction", "devices")
	device := m["devices"].([]any)[3].(map[string]any)
	for _, key := range []string{"param_bytes", "activation_bytes", "peak_bytes", "busy_seconds"} {
		if device[key] == nil {
			t.Errorf("simulate: no %s in %v", key, device)
		}
	}
	if _, err := os.Stat(trace); err != nil {
		t.Error(err)
	}

	for _, args := range []string{"version", "version --json", "--help", "train --help", "describe -k 2", "simulate -k 2 --timeline", "plan --layers 4 --devices 3 --batch 4", "plan --model resnet50 --max-batch 64 --json", "simulate -k 3 --cost time --accounting full --keep-scores --fused off --tiled off", "bench --steps 1 --layers 1 --dim 16 --ff 16 --heads 1",
		"bench --steps 1 --model amoebanetd --layers 3 --filters 8 --image 32 --batch 4 -m 2 -k 2 --classes 10 --aux 0.4 --cost time",
		"bench --steps 1 --model resnet50 --width 4 --image 32 --batch 2 -k 2 --classes 10",
		"describe --model resnet101 -k 4 --split fine", "simulate --model amoebanetd --layers 18 --filters 256 -k 8 -m 32 --batch 128 --optimizer rmsprop"} {
		if status, stdout, stderr := execute(t, strings.Fields(args)...); status != 0 || stdout == "" {
			t.Errorf("%s: exit status %d, %q, %s", args, status, stdout, stderr)
		}
	}
}

// TestInterrupt sends signals, such as that of Ctrl-C, to a training of which a trace is
// wanted that another file has the name of.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGINT between processes here")
	}
	t.Parallel()
	for sig, device := range map[syscall.Signal]string{syscall.SIGINT: "host", syscall.SIGTERM: "emulated", syscall.SIGHUP: "host"} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) { // as nohup has it: what is started ignores it too
				t.Skip("ignored here")
			}
			dir := t.TempDir()
			trace := filepath.Join(dir, "trace.json")
			if err := os.WriteFile(trace, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := start(t, command(t.TempDir(), "train --steps 1000000000 -k 4 --device "+device+" --trace "+trace, tiny...))
			r.await("step 1/")
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			if status, said := r.status(), r.said.String(); status != 1 || !strings.HasSuffix(said, "gpipebench: interrupted; no file is left half-written\n") || strings.Contains(said, "goroutine") {
				t.Errorf("exit status %d after\n%s", status, said)
			}
			if got, err := os.ReadFile(trace); err != nil || string(got) != "before" {
				t.Errorf("the trace's former file is now %q, %v", got, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("files left behind: %v, %v", left, err)
			}
		})
	}
}

func TestConsistencyCommand(t *testing.T) {
	testkit.CI(t)
	t.Parallel()
	dir := t.TempDir()
	status, stdout, stderr := execute(t, "consistency", "--profile", "smoke", "--out", dir, "--reference", "")
	if status != 0 || !strings.Contains(stdout, "Verdict: all ") {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	for _, name := range []string{"records/consistency.jsonl", "tables/consistency.md", "tables/consistency.csv"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	// Again: nothing is measured.
	status, again, stderr := execute(t, "consistency", "--profile", "smoke", "--out", dir, "--reference", "")
	if status != 0 || again != stdout || !strings.Contains(stderr, "used again") {
		t.Errorf("exit status %d\n%s%s", status, again, stderr)
	}
}
