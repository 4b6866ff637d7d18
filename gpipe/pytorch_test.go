package gpipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// TestPyTorchLoads: bench/peers/load_weights.py loads what Save wrote into the
// same model in PyTorch, which then gives the same logits, to 1e-4.
func TestPyTorchLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PyTorch, which takes seconds")
	}
	gelu := small
	gelu.model.Activation, gelu.model.Tied, gelu.model.ClipLogits = nn.GELU, false, 0
	two := smallTranslation
	two.model.Tie, two.model.HeadDim, two.model.Heads, two.model.TargetVocab = transformer.TieSoftmax, 0, 2, 23
	for _, c := range []struct {
		name     string
		pipeline Pipeline
		data     func(i int) nn.Batch
		model    string // what the tensors do not show
	}{
		{"transformer-lm", small.pipeline(t), small.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, small.model.Heads, small.model.ClipLogits)},
		{"transformer-lm, gelu, a softmax of its own", gelu.pipeline(t), gelu.data,
			fmt.Sprintf(`{"heads":%d,"activation":%q}`, gelu.model.Heads, gelu.model.Activation)},
		{"transformer", smallTranslation.pipeline(t), smallTranslation.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, smallTranslation.model.Heads, smallTranslation.model.ClipLogits)},
		{"transformer, two vocabularies", two.pipeline(t), two.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, two.model.Heads, two.model.ClipLogits)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pipeline
			p.Partitions, p.MicroBatches, p.LR = 3, 2, nn.ConstantLR(0.05)
			tr, err := openForAll(p, InputOf(c.data(0)))
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			trained(t, tr, c.data)
			weights := filepath.Join(t.TempDir(), "weights.safetensors")
			if err := tr.Save(weights, map[string]string{"model": c.model}); err != nil {
				t.Fatal(err)
			}
			inputs := c.data(7).Inputs
			out, err := tr.Predict(t.Context(), inputs...)
			if err != nil {
				t.Fatal(err)
			}
			said, err := loadWeights(t, weights, inputs, out[0])
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			t.Log(said)

			// The script can fail: one logit is slightly wrong.
			if c.name != "transformer-lm" {
				return
			}
			out[0].F32[5] += 2e-4
			var exit *exec.ExitError
			if said, err := loadWeights(t, weights, inputs, out[0]); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said, "differ by 0.0002") {
				t.Errorf("a logit that is off: %v, %s", err, said)
			}
		})
	}
}

// loadWeights runs the script and returns its output.
func loadWeights(t *testing.T, weights string, inputs []nn.Tensor, logits nn.Tensor) (string, error) {
	t.Helper()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
	type entry struct {
		Shape []int `json:"shape"`
		Data  any   `json:"data"`
	}
	var run struct {
		Inputs []entry `json:"inputs"`
		Logits entry   `json:"logits"`
	}
	for _, in := range inputs {
		run.Inputs = append(run.Inputs, entry{in.Shape, in.I32})
	}
	run.Logits = entry{logits.Shape, logits.F32}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(python, "../bench/peers/load_weights.py", weights, file).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip(strings.TrimSpace(string(said)))
	}
	return strings.TrimSpace(string(said)), err
}
