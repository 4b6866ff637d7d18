package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// stoppable is a training, and other ways to run it that must not change a bit.
type stoppable struct {
	name string
	train.Training
	others []func(*train.Setup)
}

// stoppables are a language model with Adam, an average of the weights, dropout, a warm-up
// and evaluations on the way, a ResNet with batch norm, RMSProp and epochs, a
// translator, and a language model whose best weights, which are not the last, are kept.
func stoppables() []stoppable {
	lm := traintest.TinyTraining()
	lm.Steps, lm.Batch, lm.EvalEvery, lm.EMA, lm.LRSchedule, lm.ClipNorm = 6, 8, 2, 0.9, "warmup:2,cosine:5", 1
	lm.Model.Dropout, lm.Setup.Groups, lm.HashAfter = 0.1, 4, 2
	images := traintest.TinyImages()
	images.Optimizer, images.EMA, images.Epochs, images.LRSchedule = "rmsprop", 0.9, 3, "exponential:0.5:1epochs"
	images.Config.SyntheticImages.Train, images.Config.Images.Crop, images.Config.Images.Flip = 16, 2, true
	images.Batch, images.Setup.Groups, images.L2 = 8, 2, 1e-3
	pairs := train.Training{
		Model: train.Model{Name: train.Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Seq: 48, Tied: "all"},
		Data:  "synthetic-translation", Batch: 8, Steps: 5, Seed: 1, Optimizer: "momentum", LR: 0.01, LabelSmoothing: 0.1,
		Config: datasets.Config{
			Multilingual: datasets.MultilingualConfig{Languages: 2, Pairs: 100, Nouns: 16},
			Translation:  datasets.TranslationConfig{HeldOut: 8, Noise: 0.1},
		},
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Groups: 2},
	}
	divided := func(s *train.Setup) { s.Partitions, s.Replicas, s.ShardUpdate = 3, 2, true }
	best := worsening()
	best.Setup.Groups = 2
	return []stoppable{
		{"transformer-lm", lm, []func(*train.Setup){
			divided,
			func(s *train.Setup) {
				s.Replicas, s.MicroBatches, s.Schedule, s.Checkpoint = 4, 1, schedule.OneFOneB, schedule.Never
			},
		}},
		{"resnet50", images, []func(*train.Setup){divided, func(s *train.Setup) { s.Device, s.Threads = gpipe.Emulated, 2 }}},
		{"transformer", pairs, []func(*train.Setup){divided, func(s *train.Setup) { s.Partitions, s.MicroBatches = 2, 4 }}},
		{"best weights", best, []func(*train.Setup){divided}},
	}
}

// told is everything that a training has to tell and that is not a time.
func told(t *testing.T, r *train.Result, log string) string {
	t.Helper()
	text := fmt.Sprint(r.InitialSHA256, r.HashAfter, r.WeightsSHA256, r.EMASHA256, r.Losses, r.Untrained)
	if r.Best != nil {
		text += fmt.Sprint(*r.Best)
	}
	for _, e := range append(slices.Clone(r.Evals), *r.Eval) {
		text += fmt.Sprint("\n", e.Step, e.Loss, e.Accuracy, e.Targets, e.Averaged)
		if e.BLEU != nil {
			text += fmt.Sprint(*e.BLEU)
		}
	}
	for _, row := range rowsOf(t, log) {
		text += fmt.Sprint("\n", row["step"], row["loss"], row["lr"], row["held_out_loss"], row["held_out_accuracy"])
	}
	return text
}

// stopped runs a training that is interrupted after a step, and returns how it ended.
func stopped(t *testing.T, tr train.Training, after int) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := tr.Run(ctx, func(s train.TrainStep) {
		if s.Step == after {
			stop()
		}
	})
	if err == nil || r != nil {
		t.Fatalf("interrupted after step %d: %v, %v", after, r, err)
	}
	return err
}

// A training that is interrupted after any step, and resumed in another way, tells the same
// as one that is not, its log included. Make ci stops after each step once, make test after
// the first two, within an epoch and at its end, and make deep resumes each in all ways.
func TestInterruptedAndResumed(t *testing.T) {
	for _, s := range stoppables() {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			s.Log = filepath.Join(dir, "whole.csv")
			whole := testkit.Must(s.Run(t.Context(), nil))(t)
			want, steps := told(t, whole, s.Log), len(whole.Losses)
			for after := 1; after < steps; after++ {
				for way, change := range s.others {
					if !testkit.IsDeep() && (after%len(s.others) != way || testing.Short() && after > 2) {
						continue
					}
					tr := s.Training
					tr.Snapshots = train.Snapshots{Dir: filepath.Join(dir, fmt.Sprint("snapshots", after, way)), Every: 1000}
					tr.Log = filepath.Join(dir, fmt.Sprint(after, "-", way, ".csv"))
					err := stopped(t, tr, after)
					var interrupted *train.Interrupted
					if !errors.As(err, &interrupted) || interrupted.Step < after || interrupted.Kept != interrupted.Step || interrupted.Steps != steps || !errors.Is(err, context.Canceled) {
						t.Fatalf("stopped after step %d: %v", after, err)
					}
					at := interrupted.Step
					change(&tr.Setup)
					tr.Snapshots.Resume = true
					var first int
					r := testkit.Must(tr.Run(t.Context(), func(s train.TrainStep) {
						if first == 0 {
							first = s.Step
						}
					}))(t)
					testkit.Equal(t, told(t, r, tr.Log), want, "stopped after step %d, resumed in way %d", at, way)
					if r.ResumedAt != at || at < steps && first != at+1 {
						t.Errorf("resumed at %d with step %d, want %d", r.ResumedAt, first, at)
					}
				}
			}
		})
	}
}

// Snapshots are written every Every steps and after the last; only the newest stay. A
// training that has ended can be resumed with more steps, and has the same bits as one that
// had them from the beginning.
func TestSnapshotsOfATraining(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	tr := traintest.TinyTraining()
	tr.Steps = 5
	tr.Snapshots = train.Snapshots{Dir: dir, Every: 2, Keep: 2}
	short := testkit.Must(tr.Run(t.Context(), nil))(t)
	steps, err := snapshot.Steps(dir)
	if err != nil || len(steps) != 2 || steps[1] != 5 { // the one of step 4 is late if that of step 2 takes long
		t.Errorf("steps %v, %v, want some and 5", steps, err)
	}
	tr.Snapshots.Resume = true
	again := testkit.Must(tr.Run(t.Context(), nil))(t)
	if again.WeightsSHA256 != short.WeightsSHA256 || again.Eval.Loss != short.Eval.Loss || again.ResumedAt != 5 || !slices.Equal(again.Losses, short.Losses) {
		t.Errorf("resumed after its last step: %+v, want %+v", again, short)
	}
	tr.Steps, tr.Log = 8, filepath.Join(dir, "log.csv")
	tr.Notice = func(what string) { dir += what }
	longer := testkit.Must(tr.Run(t.Context(), nil))(t)
	tr.Snapshots = train.Snapshots{}
	whole := testkit.Must(tr.Run(t.Context(), nil))(t)
	testkit.Equal(t, longer.WeightsSHA256, whole.WeightsSHA256, "weights with more steps")
	if !slices.Equal(longer.Losses, whole.Losses) || !strings.Contains(dir, "log.csv lacks steps 1 to 5, ") {
		t.Errorf("losses %v, want %v; said %s", longer.Losses, whole.Losses, dir)
	}
}

// What decides bits and differs is refused with its name and both values; cmd/gpipebench/faults has more.
func TestResumeRefuses(t *testing.T) {
	dir := t.TempDir()
	text, other := filepath.Join(dir, "one.txt"), filepath.Join(dir, "two.txt")
	for name, content := range map[string]string{text: "some text that is ", other: "another text that is "} {
		testkit.NoError(t, os.WriteFile(name, []byte(strings.Repeat(content, 50)), 0o600))
	}
	begin := func(tr train.Training, name string) train.Training {
		tr.Snapshots = train.Snapshots{Dir: filepath.Join(dir, name), Every: 1}
		testkit.Must(tr.Run(t.Context(), nil))(t)
		tr.Snapshots.Resume = true
		return tr
	}
	lm := traintest.TinyTraining()
	lm.Data = "text:" + text
	lm = begin(lm, "lm")
	images := begin(traintest.TinyImages(), "images")
	best := traintest.TinyImages()
	best.Keep, best.EvalEvery = train.KeepBest, 1
	best = begin(best, "best")
	for _, c := range []struct {
		of     train.Training
		change func(*train.Training)
		says   string
	}{
		{lm, func(t *train.Training) { t.Data = "text:" + other }, `data-sha256 "`},
		{lm, func(t *train.Training) { t.Load = other }, `load-sha256 none, and this one has "`},
		{lm, func(t *train.Training) { t.Data = "synthetic" }, `data "text", and this one has "synthetic"`},
		{lm, func(t *train.Training) { t.ClipNorm, t.L2 = 1, 0.1 }, `clip-norm none, and this one has "1"; with l2 none, and`},
		{images, func(t *train.Training) { t.Setup.MicroBatches = 1 }, `micro-batches "2", and this one has "1"`},
		{best, func(t *train.Training) { t.RecomputeStatistics = 6 }, `recompute-statistics none, and this one has "6"`},
		{images, func(t *train.Training) { t.Config.Images.Flip = true }, `data.images.flip none, and this one has "true"`},
		{images, func(t *train.Training) { t.Model = train.Model{Name: "resnet101", Width: 4, Image: 32} }, `model "resnet50", and this one has "resnet101"`},
	} {
		tr := c.of
		c.change(&tr)
		if _, err := tr.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "a snapshot of a training with "+c.says) && !strings.Contains(err.Error(), "; with "+c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
	for _, change := range []func(*train.Training){
		func(t *train.Training) { t.Setup.MicroBatches, t.Setup.Partitions, t.Model.Fine = 4, 1, true },
		func(t *train.Training) {
			t.Data = "text:" + filepath.Join(dir, "moved.txt")
			t.EvalEvery, t.Generate = 1, 3
		},
	} {
		tr := lm
		if _, err := os.Stat(filepath.Join(dir, "moved.txt")); err != nil {
			testkit.NoError(t, os.Link(text, filepath.Join(dir, "moved.txt")))
		}
		change(&tr)
		testkit.Must(tr.Run(t.Context(), nil))(t, "what decides no bits")
	}
}

// A directory that vanishes, or a snapshot that is damaged, is named; the training goes on.
func TestSnapshotsThatFail(t *testing.T) {
	tr := traintest.TinyTraining()
	tr.Steps = 6
	whole := testkit.Must(tr.Run(t.Context(), nil))(t)
	dir := filepath.Join(t.TempDir(), "d")
	var notices []string
	tr.Notice = func(what string) { notices = append(notices, what) }
	tr.Snapshots = train.Snapshots{Dir: dir, Every: 2, Keep: 10}
	r, err := tr.Run(t.Context(), func(s train.TrainStep) {
		if s.Step == 3 {
			for steps, _ := snapshot.Steps(dir); len(steps) == 0; steps, _ = snapshot.Steps(dir) {
			}
			testkit.Equal(t, os.Rename(dir, dir+"-moved"), nil)
		}
	})
	testkit.Fails(t, err, "snapshots failed: "+dir, "no such file or directory")
	testkit.Equal(t, r.WeightsSHA256, whole.WeightsSHA256, "weights")
	heard := func(what string) {
		t.Helper()
		if !slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(n, what) }) {
			t.Errorf("%q, want %s", notices, what)
		}
	}
	newest := func(step int) {
		t.Helper()
		s, damaged, err := snapshot.Newest(dir + "-moved")
		if err != nil || len(damaged) > 0 || s.Step != step {
			t.Errorf("the newest is %v, damaged %v, %v: want that of step %d", s, damaged, err, step)
		}
	}
	resumed := func() {
		t.Helper()
		r := testkit.Must(tr.Run(t.Context(), nil))(t)
		testkit.Equal(t, r.ResumedAt, 2, "resumed after step")
		testkit.Equal(t, r.WeightsSHA256, whole.WeightsSHA256, "weights")
	}
	heard("the training goes on, and older snapshots stay")
	newest(2)

	// A later one is damaged.
	tr.Snapshots = train.Snapshots{Dir: dir + "-moved", Every: 1000, Keep: 10, Resume: true}
	resumed()
	testkit.NoError(t, os.Truncate(filepath.Join(snapshot.Name(dir+"-moved", 6), "weights.safetensors"), 100))
	notices = nil
	resumed()
	heard("step-0000000006: weights.safetensors: damaged")
	newest(6)

	// What is written before the damaged one's step stays.
	testkit.NoError(t, os.Truncate(filepath.Join(snapshot.Name(dir+"-moved", 6), "weights.safetensors"), 100))
	tr.Steps, tr.Snapshots.Every, tr.Snapshots.Keep = 4, 1, 1
	testkit.Must(tr.Run(t.Context(), nil))(t)
	testkit.EqualAll(t, testkit.Must(snapshot.Steps(dir+"-moved"))(t), []int{4, 6})
	s, damaged, err := snapshot.Newest(dir + "-moved")
	if err != nil || len(damaged) != 1 || s.Step != 4 {
		t.Errorf("%v, damaged %v, %v: want that of step 4", s, damaged, err)
	}
}

// What an experiment cannot go on from is removed, as its directory is nobody else's.
func TestOwnSnapshots(t *testing.T) {
	tr := traintest.TinyTraining()
	tr.Steps = 3
	tr.Snapshots = train.Snapshots{Dir: t.TempDir(), Every: 1, Resume: true, Own: true}
	testkit.Must(tr.Run(t.Context(), nil))(t)
	tr.Seed = 2
	testkit.Equal(t, testkit.Must(tr.Run(t.Context(), nil))(t).ResumedAt, 0, "resumed after step")
}
