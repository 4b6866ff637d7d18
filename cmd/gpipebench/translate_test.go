package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// tinyTranslator is tiny for a translator.
var tinyTranslator = strings.Fields("--model transformer --layers 1 --dim 16 --ff 32 --heads 2 --batch 16 --steps 3 --threads 1")

// TestTiedApart: the value of --tied may stand apart or be left out.
func TestTiedApart(t *testing.T) {
	for tied, params := range map[string]string{
		"": "1024", "--tied": "512", "--tied softmax": "512", "--tied=all": "512", "--tied none": "1024",
	} {
		args := strings.Fields("describe --json --layers 1 --dim 16 --ff 16 --heads 2 --vocab 32 --seq 8 -k 1 " + tied)
		stdout, _ := succeeds(t, args...)
		// Embedding and weight of the softmax, beside what all have.
		got := keys(t, stdout, "params")["params"].(float64)
		testkit.Equal(t, got-map[string]float64{"1024": 1024, "512": 512}[params], 16*16*4+4*16+2*16*16+32+4*16+32, "%s: %v parameters", tied, got)
	}
}

// TestOtherCommandsOnTranslators: describe, simulate and bench take the model.
func TestOtherCommandsOnTranslators(t *testing.T) {
	for _, args := range []string{
		"describe --layers 6 --dim 1024 --ff 8192 --heads 16 --head-dim 64 --vocab 64000 --seq 16 --tied softmax --json",
		"simulate --layers 2 --dim 64 --ff 128 --heads 4 --vocab 100 --seq 16 --device tpuv3 -k 2 -m 2 --batch 4 --json",
		"bench --layers 1 --dim 16 --ff 32 --heads 2 --vocab 50 --seq 8 --batch 4 --steps 2 --json",
	} {
		words := strings.Fields(args)
		stdout, _ := succeeds(t, append(words, "--model", "transformer")...)
		if words[0] == "describe" && keys(t, stdout, "params")["params"].(float64) != 408207872 {
			t.Errorf("T(6, 8192, 16): %s", stdout[:60])
		}
	}
}

// TestOutcomeOutlivesErrors: a failure after the last step costs neither the
// outcome nor what is saved.
func TestOutcomeOutlivesErrors(t *testing.T) {
	for _, how := range []string{"", "--json", "--json --k 2", "--trace TRACE"} {
		weights := filepath.Join(t.TempDir(), "weights")
		trace := filepath.Join(t.TempDir(), "trace.json")
		args := append([]string{"train"}, tinyTranslator...)
		// The one step is finite, and what it makes of the weights is not.
		args = append(args, "--steps", "1", "--lr", "1e30", "--lr-schedule", "constant", "--optimizer", "sgd", "--clip-norm", "0", "--save", weights)
		args = append(args, strings.Fields(strings.NewReplacer("--k ", "-k ", "TRACE", trace).Replace(how))...)
		status, stdout, stderr := execute(t, args...)
		if status != 1 || !strings.Contains(stderr, "evaluation: ") {
			t.Errorf("%s: exit status %d, %s: want 1 and an error of the evaluation", how, status, stderr)
		}
		hash := ""
		if strings.Contains(how, "--json") {
			m := keys(t, stdout, "weights_sha256", "losses", "eval", "peak_bytes", "examples_per_second")
			hash = m["weights_sha256"].(string)
			if len(m["losses"].([]any)) != 1 || len(m["peak_bytes"].([]any)) == 0 || m["eval"] != nil {
				t.Errorf("%s: %s", how, stdout)
			}
		} else if _, rest, ok := strings.Cut(stdout, "weights SHA-256 "); ok {
			hash = strings.TrimSpace(rest)
		}
		saved, err := os.ReadFile(weights)
		if err != nil || len(hash) != 64 || !strings.Contains(string(saved), hash) {
			t.Errorf("%s: weights %q, and a file of %d bytes with others (%v)", how, hash, len(saved), err)
		}
		if strings.Contains(how, "--trace") {
			testkit.Must(os.Stat(trace))(t)
		}
	}
}
