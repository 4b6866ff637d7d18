package main

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// small are the values of a network that trains in milliseconds, by flag.
var small = map[string]string{
	"layers": "3", "dim": "8", "ff": "8", "heads": "2", "vocab": "24", "seq": "8", "beam": "2", "languages": "1", "pairs": "40",
	"filters": "16", "width": "2", "image": "19", "classes": "4", "train-images": "8", "held-out": "8",
}

// odd draws a value that a flag's kind permits, next to what is common.
func odd(f *pflag.Flag, random *rand.Rand) string {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	switch kind := f.Value.Type(); {
	case kind == "bool":
		return pick([]string{"true", "false"})
	case kind == "n":
		return pick([]string{"0", "1", "1", "2", "3", "4", "5", "7", "9", "12", "16", "17", "32"})
	case kind == "number":
		return pick([]string{"0", "0.3", "0.9", "1", "1.5"})
	case strings.Contains(kind, "|"):
		words := strings.Split(kind, "|")
		return pick(slices.DeleteFunc(words, func(w string) bool { return w == "FILE.csv" })) // there is none
	}
	return f.DefValue
}

// diverged is that a network cannot be evaluated after its one step: moving averages
// of batch norm that have hardly moved may let activations grow without a bound.
var diverged = regexp.MustCompile(`\ngpipebench: evaluation: [^\n]+ is (NaN|[+-]Inf) \([^\n]+\n$`)

// Networks of odd sizes (a pixel, a token, a class, heads that do not divide a width,
// kernels and strides larger than the image) take a training step, or are refused as
// misuse in one line. Nothing else ends them.
func TestOddShapes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // for traces of defects
	random := rand.New(rand.NewPCG(1, 2))
	shapes := 10 * len(train.Models())
	if testkit.IsDeep() {
		shapes = 400
	}
	trained, refused := map[string]int{}, map[string]int{}
	for i := range shapes {
		model := train.Models()[i%len(train.Models())]
		name := []string{"train", "bench"}[random.IntN(2)]
		cmd, _, err := newRoot(nil, nil).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		var own []*pflag.Flag // of this network
		values := map[string]string{"batch": "4", "steps": "1", "micro-batches": "2"}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(train.ModelsWith(f.Name), model) {
				return
			}
			own = append(own, f)
			if v, ok := small[f.Name]; ok {
				values[f.Name] = v
			}
		})
		for _, other := range []string{"batch", "micro-batches", "partitions", "schedule", "checkpoint", "partitioner", "split", "dropout", "label-smoothing", "optimizer", "device", "threads"} {
			if f := cmd.Flags().Lookup(other); f != nil {
				own = append(own, f)
			}
		}
		for range 1 + random.IntN(4) {
			f := own[random.IntN(len(own))]
			values[f.Name] = odd(f, random)
		}
		if name == "bench" {
			values["warmup"] = "0"
		}
		args := []string{name, "--model=" + model}
		for _, flag := range slices.Sorted(maps.Keys(values)) {
			args = append(args, "--"+flag+"="+values[flag])
		}
		switch status, stdout, stderr := execute(t, args...); {
		case status == 0 && stdout != "", status == 1 && strings.Contains(stderr, "step 1/1") && diverged.MatchString(stderr):
			trained[model]++
		case status == 2 && stdout == "" && strings.Count(stderr, "\n") == 1 && strings.HasPrefix(stderr, "gpipebench: "):
			refused[model]++
		default:
			t.Errorf("%s: exit status %d, %s", strings.Join(args, " "), status, stderr)
		}
	}
	t.Logf("trained %v, refused %v", trained, refused)
	for _, model := range train.Models() {
		if trained[model] == 0 || refused[model] == 0 {
			t.Errorf("%s: %d trained and %d refused, want some of each", model, trained[model], refused[model])
		}
	}
}
