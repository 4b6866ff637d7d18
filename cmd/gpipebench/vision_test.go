package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// TestTrainImages: networks for images are trained and scored by top-1 and
// top-5, to the same bits however they are cut and scheduled at one M.
func TestTrainImages(t *testing.T) {
	for _, model := range []string{
		"--model amoebanetd --layers 3 --filters 8 --aux 0.4 --drop-path 0.2 --dropout 0.2 --optimizer rmsprop --label-smoothing 0.1 --lr-schedule batch/256,warmup:1epochs,exponential:0.97:0.5epochs --ema 0.99 --flip --crop 4 --cutout 8",
		"--model resnet50 --width 4",
	} {
		hashes := map[string]bool{}
		for _, how := range []string{"-k 1", "-k 4 --schedule 1f1b --device emulated --threads 1", "-k 2 --checkpoint never"} {
			args := strings.Fields("train --json --train-images 40 --held-out 40 --batch 16 --epochs 2 -m 2 " + model + " " + how)
			stdout, _ := succeeds(t, args...)
			m := keys(t, stdout, "weights_sha256", "losses", "eval", "peak_bytes", "examples_per_second", "evals", "yardsticks")
			hashes[m["weights_sha256"].(string)] = true
			eval := m["eval"].(map[string]any)
			one, five := eval["top1"].(float64), eval["top5"].(float64)
			if one != eval["accuracy"] || one > five || five > 1 || five == 0 || eval["targets"] != 40. || eval["perplexity"] != nil {
				t.Errorf("%v: scores %v", args, eval)
			}
			testkit.Equal(t, len(m["losses"].([]any)), 6, "%v: steps of 2 epochs, of 16, 16 and 8 images each", args)
			if evals := m["evals"].([]any); len(evals) != 1 || evals[0].(map[string]any)["step"] != 3. {
				t.Errorf("%v: evaluations %v, want one behind the first epoch", args, evals)
			}
			if y := m["yardsticks"].([]any); len(y) != 1 || y[0].(map[string]any)["accuracy"] == nil {
				t.Errorf("%v: yardsticks %v", args, y)
			}
		}
		testkit.Equal(t, len(hashes), 1, "%s: weights %v", model, hashes)
	}
}

// A folder for each class gives size and classes.
func TestTrainImageFolder(t *testing.T) {
	dir := t.TempDir()
	for _, class := range []string{"bright", "dark"} {
		testkit.NoError(t, os.Mkdir(filepath.Join(dir, class), 0o700))
		for i := range 10 {
			picture := image.NewGray(image.Rect(0, 0, 32, 32))
			for p := range picture.Pix {
				picture.Pix[p] = byte(i + p%32)
			}
			if class == "bright" {
				for x := range 32 {
					picture.SetGray(x, 16, color.Gray{255})
				}
			}
			f := testkit.Must(os.Create(filepath.Join(dir, class, string(rune('a'+i))+".png")))(t)
			testkit.NoError(t, png.Encode(f, picture))
			testkit.NoError(t, f.Close())
		}
	}
	stdout, stderr := succeeds(t, strings.Fields("train --model resnet50 --width 2 --batch 6 -m 2 --steps 4 --data images:"+dir)...)
	testkit.Has(t, stdout, "top-1 ", "after 4 steps batch norm's moving averages, which the evaluation uses, are still 66% initial values", "baseline chance: 0.6931 nats, top-1 50.00%")
	if strings.Contains(stdout, "top-5") {
		t.Errorf("the first five of two classes are no measure:\n%s", stdout)
	}
	testkit.Has(t, stderr, "images:"+dir+": 18 images to train on, 2 held out, of 2 classes (bright, dark), at 32 x 32 pixels\n",
		"step 3/4  ") // the evaluation after the epoch
}

// One step less than an epoch does not meet its last mini-batch, which would be too small.
func TestTrainLessThanAnEpoch(t *testing.T) {
	succeeds(t, strings.Fields("train --held-out 8 --batch 8 --steps 5 --model amoebanetd --filters 8 --train-images 42 -m 4")...)
}
