package gpipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// TestPyTorchLoads: bench/peers/load_weights.py loads what Save wrote into the
// same model in PyTorch, which then gives the same logits, to 1e-4.
func TestPyTorchLoads(t *testing.T) {
	testkit.CI(t) // starts PyTorch
	gelu := small
	gelu.model.Activation, gelu.model.Tied, gelu.model.ClipLogits = nn.GELU, false, 0
	final := gelu
	final.model.FinalNorm = true
	two := smallTranslation
	two.model.Tie, two.model.HeadDim, two.model.Heads, two.model.TargetVocab = transformer.TieSoftmax, 0, 2, 23
	untied := smallLlama
	untied.model.Tied = false
	llamaShape := fmt.Sprintf(`{"head_dim":%d,"rope_theta":%v}`, smallLlama.llama.HeadDim, smallLlama.llama.RopeTheta)
	normed := smallTranslation
	normed.model.FinalNorm = true
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
		{"transformer-lm, final norm", final.pipeline(t), final.data,
			fmt.Sprintf(`{"heads":%d,"activation":%q}`, final.model.Heads, final.model.Activation)},
		{"transformer, final norm", normed.pipeline(t), normed.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, normed.model.Heads, normed.model.ClipLogits)},
		{"llama", smallLlama.pipeline(t), smallLlama.data, llamaShape},
		{"llama, a softmax of its own", untied.pipeline(t), untied.data, llamaShape},
		{"transformer", smallTranslation.pipeline(t), smallTranslation.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, smallTranslation.model.Heads, smallTranslation.model.ClipLogits)},
		{"resnet", smallResNet.pipeline(t, false), smallResNet.data, "{}"},
		{"transformer, two vocabularies", two.pipeline(t), two.data,
			fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, two.model.Heads, two.model.ClipLogits)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pipeline
			p.Partitions, p.MicroBatches, p.LR = 3, 2, nn.ConstantLR(0.05)
			tr := openedForAll(t, p, InputOf(c.data(0)))
			trained(t, tr, c.data)
			weights := filepath.Join(t.TempDir(), "weights.safetensors")
			noError(t, tr.Save(weights, map[string]string{"model": c.model}))
			inputs := c.data(7).Inputs
			out := must(tr.Predict(t.Context(), inputs...))(t)
			run := map[string]any{"inputs": entries(inputs), "logits": entry{out[0].Shape, out[0].F32}}
			t.Log(must(loadWeights(t, weights, run))(t))

			// The script can fail: one logit is slightly wrong.
			if c.name != "transformer-lm" {
				return
			}
			out[0].F32[5] += 2e-4
			var exit *exec.ExitError
			if said, err := loadWeights(t, weights, run); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said, "differ by 0.0002") {
				t.Errorf("a logit that is off: %v, %s", err, said)
			}
		})
	}
}

// againstPyTorch is a training after steps that leave no symmetry in its weights, and a function
// by which PyTorch compares the loss and the gradients of a mini-batch with its own.
func againstPyTorch(t *testing.T, data func(i int) nn.Batch, smoothing float32, p Pipeline, model string, more map[string]any) (tr *Trainer, compare func() (said string, err error)) {
	t.Helper()
	tr = opened(t, p, InputOf(data(0)))
	for i := range 3 {
		stepped(t, tr, data(i))
	}
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	noError(t, tr.Save(weights, map[string]string{"model": model}))
	batch := data(0)
	r := must(tr.Differentiate(t.Context(), batch))(t)
	gradients := map[string]entry{}
	for _, g := range tr.Gradients() {
		gradients[g.Path] = entry{g.Shape, g.Data}
	}
	run := map[string]any{
		"inputs": entries(batch.Inputs), "targets": entries(batch.Targets)[0], "count": batch.Count, "smoothing": smoothing,
		"loss": r.Loss, "gradients": gradients,
	}
	maps.Copy(run, more)
	return tr, func() (string, error) { return loadWeights(t, weights, run) }
}

// Three replicas of two stages have the loss and the gradients of one PyTorch process
// that takes the whole mini-batch: within 2e-6 of each gradient's norm, computed there in
// float64. Replicas have different numbers of targets, so a mean of their means would differ.
func TestPyTorchReplicas(t *testing.T) {
	testkit.CI(t) // starts PyTorch
	for _, tied := range []bool{true, false} {
		l := small
		l.model.Dropout, l.model.Tied, l.model.FinalNorm = 0, tied, !tied
		p := l.pipeline(t)
		p.Replicas, p.Partitions, p.MicroBatches = 3, 2, 2
		tr, compare := againstPyTorch(t, l.data, l.smooth, p, fmt.Sprintf(`{"heads":%d,"clip_logits":%v}`, l.model.Heads, l.model.ClipLogits), nil)
		t.Log(must(compare())(t))

		// The script can fail: a gradient is slightly too long.
		wrong := tr.Gradients()[3]
		for i := range wrong.Data {
			wrong.Data[i] *= 1 + 1e-5
		}
		var exit *exec.ExitError
		if said, err := compare(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said, "gradient of "+wrong.Path+" differs by ") {
			t.Errorf("a gradient that is off: %v, %s", err, said)
		}
	}
}

// Four parts that divide operations in four blocks, and three with one, have PyTorch's gradients as well: those of a
// ResNet within 1e-5 of their norms.
func TestPyTorchTensor(t *testing.T) {
	testkit.CI(t) // starts PyTorch
	l := uneven
	l.model.Dropout = 0
	for _, of := range [][2]int{{4, 4}, {3, 1}} {
		for name, c := range map[string]struct {
			Pipeline
			data  func(i int) nn.Batch
			micro int // batch norm's gradients depend on M
		}{"transformer-lm": {l.pipeline(t), l.data, 2}, "resnet": {unevenResNet.pipeline(t, false), unevenResNet.data, 1}} {
			p := c.Pipeline
			p.Tensor, p.Blocks, p.Partitions, p.MicroBatches = of[0], of[1], 2, c.micro
			_, compare := againstPyTorch(t, c.data, 0.1, p, fmt.Sprintf(`{"heads":%d}`, l.model.Heads), nil)
			t.Log(name, of, must(compare())(t, "%s, %v", name, of))
		}
	}
}

// TestPyTorchAutocast: a step with activations in bfloat16 has the loss and the gradients of
// PyTorch's own autocast, within eight times bfloat16's resolution (2^-8) of each gradient's
// norm: both round about thirty results one after another, not all at the same places.
func TestPyTorchAutocast(t *testing.T) {
	testkit.CI(t) // starts PyTorch
	l := small
	l.model.Dropout, l.model.ClipLogits, l.model.Activation = 0, 0, nn.GELU // without kinks, where a rounding could turn a gradient on or off
	for _, dt := range []graph.DType{graph.BF16, graph.F32} {
		p := l.pipeline(t)
		p.Partitions, p.MicroBatches, p.DType = 2, 2, dt
		_, compare := againstPyTorch(t, l.data, l.smooth, p, fmt.Sprintf(`{"heads":%d,"activation":"gelu"}`, l.model.Heads), map[string]any{"autocast": dt == graph.BF16})
		t.Log(dt, must(compare())(t, "%v", dt))
	}
}

// entry is a tensor as the script reads it.
type entry struct {
	Shape []int `json:"shape"`
	Data  any   `json:"data"`
}

// entries are tensors of ids or of images.
func entries(tensors []nn.Tensor) (all []entry) {
	for _, in := range tensors {
		if in.F32 != nil {
			all = append(all, entry{in.Shape, in.F32})
		} else {
			all = append(all, entry{in.Shape, in.I32})
		}
	}
	return all
}

// loadWeights runs the script and returns its output, which is in its error as well.
func loadWeights(t *testing.T, weights string, run map[string]any) (said string, err error) {
	t.Helper()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
	text := must(json.Marshal(run))(t)
	file := filepath.Join(t.TempDir(), "run.json")
	noError(t, os.WriteFile(file, text, 0o666))
	out, err := exec.Command(python, "../bench/peers/load_weights.py", weights, file).CombinedOutput()
	said = strings.TrimSpace(string(out))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip(said)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return said, err
}
