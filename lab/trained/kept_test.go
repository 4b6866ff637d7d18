package trained

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// A trial that is interrupted goes on within its training when the experiment runs again,
// with the same record; when that is written, nothing else is left.
func TestInterruptedTrial(t *testing.T) {
	arms := []Arm{{"an arm", func(seed uint64) train.Training {
		tr := traintest.TinyTraining()
		tr.Steps, tr.Seed, tr.EvalEvery = 2000, seed, 500
		return tr
	}}}
	want := testkit.Must(Train(t.Context(), arms[0].Training(3)))(t)
	dir := t.TempDir()
	open := func() *records.Log {
		log := testkit.Must(records.Open(records.File(dir, "e"), records.Key{Experiment: "e", Profile: "smoke"}, false))(t)
		return log
	}
	log := open()
	kept := log.Unfinished(arms[0].Sample(3))
	var interrupted *train.Interrupted
	for wait := 20 * time.Millisecond; interrupted == nil || interrupted.Kept == 0; wait *= 2 {
		if wait > 10*time.Second {
			t.Fatal("never interrupted between its first and its last step")
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(kept); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(wait)
			stop()
		}()
		err := run(ctx, "e", arms, []uint64{3}, log, progress.Silent{}, Train)
		stop()
		if err == nil {
			t.Skip("too fast to be interrupted here")
		}
		if interrupted = nil; !errors.As(err, &interrupted) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if interrupted.Step >= interrupted.Steps || !interrupted.Own || interrupted.Dir != kept {
		t.Errorf("%+v", interrupted)
	}
	testkit.NoError(t, log.Close())

	log = open()
	defer log.Close()
	resumed, err := Kept(arms[0].Training(3), log, arms[0].Sample(3)).Open(t.Context())
	if err != nil || resumed.Resumed != interrupted.Step || resumed.Earlier() <= 0 {
		t.Fatalf("%v, %+v, want it to go on after step %d", err, resumed, interrupted.Step)
	}
	testkit.NoError(t, resumed.Close())
	testkit.NoError(t, run(t.Context(), "e", arms, []uint64{3}, log, progress.Silent{}, Train))
	all := testkit.Must(Read(log, arms, []uint64{3}))(t)
	got := all[0].Runs[0]
	if got.Seconds <= 0 || got.SHA256 != want.SHA256 || got.LastLoss != want.LastLoss || got.HeldOut != want.HeldOut || !slices.Equal(got.Along, want.Along) || got.Params != want.Params {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "snapshots")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("snapshots are left: %v", err)
	}
}
