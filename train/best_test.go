package train_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// worsening is a training whose loss first falls and then rises, as its rate is too high.
func worsening() train.Training {
	t := traintest.TinyTraining()
	t.Steps, t.EvalEvery, t.Keep = 12, 3, train.KeepBest
	t.Optimizer, t.LR, t.LRSchedule, t.ClipNorm = "sgd", 4, "warmup:12", 1
	t.Config.Synthetic.HeldOut = 14
	return t
}

// scored is the loss on the held-out mini-batches, or images, at even or odd places, by hand.
func scored(t *testing.T, l *train.Loop, batch, from int) float64 {
	t.Helper()
	sum, count := 0.0, 0
	_, images := l.Source.(*datasets.ImageSet)
	for i := range l.Source.Batches(datasets.HeldOut, batch) {
		if !images && i%2 != from {
			continue
		}
		b := testkit.Must(l.Source.Batch(datasets.HeldOut, i, batch))(t)
		for j := 1 - from; images && j < b.Examples(); j += 2 { // batch is even
			b.Targets[0].I32[j] = -1
			b.Count--
		}
		r := testkit.Must(l.Trainer.Evaluate(t.Context(), b))(t)
		sum += float64(r.Loss * float64(r.Count))
		count += r.Count
	}
	return sum / float64(count)
}

// The weights with the least loss on the even mini-batches are hashed, saved, and evaluated on the
// odd ones; what they are is computed beside it, by a training that keeps its last weights.
func TestKeepBest(t *testing.T) {
	images := traintest.TinyImages()
	images.Epochs, images.Keep, images.Optimizer, images.LR, images.ClipNorm = 4, train.KeepBest, "sgd", 0.01, 1
	images.Model.BNMomentum = 0.01
	averaged := worsening()
	averaged.EMA = 0.1
	for name, kept := range map[string]train.Training{"language model": worsening(), "averaged": averaged, "images": images} {
		t.Run(name, func(t *testing.T) {
			kept.Save = filepath.Join(t.TempDir(), "weights.safetensors")
			var losses []float64
			r := testkit.Must(kept.Run(t.Context(), nil))(t)

			plain := kept
			plain.Keep, plain.Save = train.KeepLast, ""
			every := kept.EvalEvery
			if every == 0 {
				every = 2 // mini-batches of an epoch
			}
			l := testkit.Must(plain.Open(t.Context()))(t)
			defer l.Close()
			var best train.Best
			var hash string
			var final float64
			testkit.NoError(t, l.Run(t.Context(), train.Hooks{At: func(done int) error {
				if done == 0 || done%every != 0 {
					return nil
				}
				see := func() error {
					loss := scored(t, l, kept.Batch, 0)
					losses = append(losses, loss)
					if best.Step == 0 || loss < best.Loss {
						best, hash, final = train.Best{Step: done, Loss: loss}, l.Trainer.Hash(), scored(t, l, kept.Batch, 1)
					}
					return nil
				}
				if kept.EMA != 0 {
					return l.Trainer.Averaged(see)
				}
				return see()
			}}))
			if best.Step == l.Steps {
				t.Fatalf("the last weights are the best: %v", losses)
			}
			if r.Best == nil || *r.Best != best || r.WeightsSHA256 != hash || r.Eval.Loss != final || r.Eval.Development {
				t.Errorf("kept %v %s, evaluated %v; want %v %s, %v", r.Best, r.WeightsSHA256, r.Eval, best, hash, final)
			}
			testkit.Equal(t, r.Eval.Step, best.Step, "the final evaluation is of the weights after step")
			if want := math.Pow(0.01, float64(best.Step)); name == "images" && math.Abs(r.Untrained/want-1) > 1e-9 {
				t.Errorf("%v of the statistics are initial values, want %v", r.Untrained, want)
			}
			for i, e := range r.Evals {
				if e.Loss != losses[i] || !e.Development || !strings.HasPrefix(e.String(), "development loss ") {
					t.Errorf("evaluation %d: %v, want the development set's %v", i, e, losses[i])
				}
			}
			again := testkit.Must(kept.Open(t.Context()))(t)
			defer again.Close()
			testkit.NoError(t, again.Run(t.Context(), train.Hooks{}))
			testkit.Equal(t, testkit.Must(again.Evaluate(t.Context()))(t).Loss, best.Loss, "afterwards, the best weights' loss")
			saved := plain
			saved.Load, saved.Steps, saved.Epochs = kept.Save, 0, 0
			testkit.Equal(t, testkit.Must(saved.Run(t.Context(), nil))(t).WeightsSHA256, hash, "saved")
		})
	}
}

// Of pairs, each language's are divided: those at even places choose, those at odd ones are
// translated and scored.
func TestKeepBestTranslator(t *testing.T) {
	tr := stoppables()[2].Training
	tr.Keep, tr.EvalEvery, tr.Translations = train.KeepBest, 2, filepath.Join(t.TempDir(), "translations.csv")
	opened := tr
	source := testkit.Must(opened.Source())(t)
	r := testkit.Must(tr.Run(t.Context(), nil))(t)
	rows := rowsOf(t, tr.Translations)
	pairs := source.(*datasets.Translation)
	for i, l := range pairs.Languages() {
		held := pairs.Pairs(i, datasets.HeldOut)
		if of := r.Eval.Languages[i]; of.HeldOut != len(held)/2 || r.Evals[0].Languages[i].HeldOut != (len(held)+1)/2 {
			t.Errorf("%s: %d pairs in the end and %d before, of %d", l.Name, of.HeldOut, r.Evals[0].Languages[i].HeldOut, len(held))
		}
		for j := 1; j < len(held); j += 2 {
			if len(rows) == 0 || rows[0]["source"] != held[j].SourceText {
				t.Fatalf("translations %v, want that of %q", rows, held[j].SourceText)
			}
			rows = rows[1:]
		}
	}
	testkit.Equal(t, len(rows), 0, "more translations: %v", rows)
}

// A training of 11 steps ends with the weights after them, which are better than those after 9. One
// of 12 steps that goes on from its last snapshot ends with those after 9, as one that was not stopped,
// unless the snapshot's file of them is damaged, which is found before any step.
func TestKeepBestResumed(t *testing.T) {
	whole := testkit.Must(worsening().Run(t.Context(), nil))(t)
	dir := t.TempDir()
	tr := worsening()
	tr.Steps, tr.Snapshots = 11, train.Snapshots{Dir: dir, Every: 20, Keep: 10}
	testkit.Equal(t, testkit.Must(tr.Run(t.Context(), nil))(t).Best.Step, 11, "the best step of 11")
	tr.Steps, tr.Snapshots.Resume = 12, true
	for range 2 { // from step 11, and from its own last
		r := testkit.Must(tr.Run(t.Context(), nil))(t)
		testkit.Equal(t, *r.Best, *whole.Best, "the best of 12 steps, resumed after %d", r.ResumedAt)
		testkit.Equal(t, r.WeightsSHA256, whole.WeightsSHA256, "resumed after %d", r.ResumedAt)
	}
	settings := testkit.Must(snapshot.Open(snapshot.Name(dir, 12)))(t).Settings
	for _, step := range []int{11, 12} {
		testkit.NoError(t, os.Truncate(filepath.Join(snapshot.Name(dir, step), "best.safetensors"), 100))
	}
	_, err := tr.Open(t.Context())
	testkit.Fails(t, err, "step-0000000012: best.safetensors: damaged")

	// An older version wrote snapshots without it.
	old := testkit.Must(worsening().Open(t.Context()))(t)
	defer old.Close()
	testkit.Must(old.Step(t.Context()))(t)
	state := testkit.Must(old.Trainer.State(nil))(t)
	tr.Snapshots.Dir = t.TempDir()
	testkit.NoError(t, snapshot.Write(tr.Snapshots.Dir, snapshot.Contents{State: state, Settings: settings, Progress: []byte(`{"report":{},"best":{"step":1,"development_loss":2}}`)}))
	_, err = tr.Open(t.Context())
	testkit.Fails(t, err, "step-0000000001: an older version wrote it, without the best weights, those after step 1")
	tr.Snapshots.Own = true
	testkit.Equal(t, testkit.Must(tr.Run(t.Context(), nil))(t).WeightsSHA256, whole.WeightsSHA256, "begun anew")
}

// While the best weights cannot be written there are no snapshots, and the training goes on; at its end
// they are, or that is an error.
func TestKeepBestUnwritten(t *testing.T) {
	whole := testkit.Must(worsening().Run(t.Context(), nil))(t)
	tr := worsening()
	var notices []string
	tr.Notice = func(what string) { notices = append(notices, what) }
	tr.Snapshots = train.Snapshots{Dir: t.TempDir(), Every: 2, Keep: 10, Resume: true}
	inTheWay := filepath.Join(tr.Snapshots.Dir, "best.safetensors")
	block := func() { testkit.NoError(t, os.Mkdir(inTheWay, 0o700)) }
	block()
	_, err := tr.Run(t.Context(), nil)
	testkit.FailsFirst(t, err, "the best weights, those after step 9, are not written: ")
	testkit.EqualAll(t, testkit.Must(snapshot.Steps(tr.Snapshots.Dir))(t), []int{2}, "snapshots")
	for _, want := range []string{"not written: ", "no snapshot after step 4: the best weights, those after step 3, are not written: "} {
		if !slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("%q, want %s", notices, want)
		}
	}
	testkit.NoError(t, os.Remove(inTheWay))
	r := testkit.Must(tr.Run(t.Context(), nil))(t)
	testkit.Equal(t, r.ResumedAt, 2, "resumed after step")
	testkit.Equal(t, r.WeightsSHA256, whole.WeightsSHA256, "resumed")

	// Those that were not written are not the best in the end.
	tr.Snapshots.Dir = t.TempDir()
	inTheWay = filepath.Join(tr.Snapshots.Dir, "best.safetensors")
	block()
	r, err = tr.Run(t.Context(), func(s train.TrainStep) {
		if s.Step == 7 {
			testkit.NoError(t, os.Remove(inTheWay))
		}
	})
	testkit.Fails(t, err, "snapshots failed: the best weights, those after step")
	testkit.Equal(t, r.WeightsSHA256, whole.WeightsSHA256, "written later")
}

// What cannot be kept is refused before the first step, and no file is left.
func TestKeepBestRefused(t *testing.T) {
	for want, change := range map[string]func(*train.Training){
		"keeping the best weights of 12 steps with an evaluation every 0":      func(t *train.Training) { t.EvalEvery = 0 },
		"keeping the best weights of 12 steps with an evaluation every 12":     func(t *train.Training) { t.EvalEvery = 12 },
		"keeping the best weights by a development set, but only 1 mini-batch": func(t *train.Training) { t.Config.Synthetic.HeldOut = 4 },
	} {
		tr := worsening()
		change(&tr)
		_, err := tr.Open(t.Context())
		testkit.FailsFirst(t, err, want)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	testkit.Must(worsening().Run(t.Context(), nil))(t)
	left := testkit.Must(os.ReadDir(temporary))(t)
	testkit.Equal(t, len(left), 0, "left: %v", left)
}
