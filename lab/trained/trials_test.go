package trained

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/internal/units"
	"gpipebench/lab/records"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// beginning keeps how work was announced.
type beginning struct {
	progress.Silent
	what []string
}

func (b *beginning) Begin(what string, _ int) { b.what = append(b.what, what) }

// Before the first training it is said how many are left and how much they compute.
func TestTrialsAnnounceTheirWork(t *testing.T) {
	tiny := func(steps int) Arm {
		return Arm{fmt.Sprintf("%d steps", steps), func(seed uint64) train.Training {
			tr := traintest.TinyTraining()
			tr.Steps, tr.Seed = steps, seed
			return tr
		}}
	}
	one := testkit.Must(tiny(1).Training(1).FLOPs())(t)
	log, said := records.New(records.Key{Experiment: "e", Profile: "smoke"}), &beginning{}
	for _, c := range []struct {
		arms  []Arm
		seeds []uint64
		want  string
	}{
		{[]Arm{tiny(1)}, []uint64{3}, "e: 1 trainings, " + units.FormatFLOPs(one)},
		{[]Arm{tiny(1), tiny(5)}, []uint64{3, 4}, "e: 3 trainings, " + units.FormatFLOPs((1+5+5)*one)}, // less the one that is there
	} {
		testkit.NoError(t, run(t.Context(), "e", c.arms, c.seeds, log, said, Train))
		testkit.Equal(t, said.what[len(said.what)-1], c.want)
	}
	testkit.Fails(t, run(t.Context(), "e", []Arm{tiny(0)}, []uint64{9}, log, said, Train))
}

// Trials of one arm have the same files of data: others are neither trained nor read.
func TestTrialsHaveTheSameData(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text.txt")
	arm := Arm{"a", func(seed uint64) train.Training {
		tr := traintest.TinyTraining()
		tr.Data, tr.Batch, tr.Steps, tr.Seed = "text:"+name, 8, 1, seed
		return tr
	}}
	log := records.New(records.Key{Experiment: "e", Profile: "smoke"})
	train := func(content string, seeds ...uint64) error {
		testkit.NoError(t, os.WriteFile(name, []byte(strings.Repeat(content, 50)), 0o600))
		return run(t.Context(), "e", []Arm{arm}, seeds, log, progress.Silent{}, Train)
	}
	testkit.NoError(t, errors.Join(train("some text that is ", 1), train("some text that is ", 1, 2)))
	all, err := Read(log, []Arm{arm}, []uint64{1, 2})
	if err != nil || len(all[0].Runs[0].Data) != 64 || all[0].Runs[0].Data != all[0].Runs[1].Data {
		t.Errorf("%v, %v", all, err)
	}
	if err := train("another text that is ", 1, 2, 3); err == nil || log.Has(arm.Sample(3)) || !strings.Contains(err.Error(), "e, a: the files of data are others than those that trainings in the records learnt") {
		t.Errorf("other data: %v", err)
	}
	other := *all[0].Runs[0]
	other.Data = strings.Repeat("ab", 32)
	testkit.NoError(t, log.Add(arm.Sample(3), 3, other))
	testkit.Refused(Read(log, []Arm{arm}, []uint64{1, 2, 3}))(t, "its training had other files of data")
}

// A training in which a value is not finite does not end the others: it has a guesser's scores, and a note.
func TestNonFiniteTraining(t *testing.T) {
	x := mustRead(t, translators)
	f, size := &x.Spec.Frame, x.Spec.Profiles["smoke"]
	training := f.Training(size, f.Arms[0], 1)
	training.Optimizer, training.LR = "sgd", 1e38
	ended := testkit.Must(Train(t.Context(), training))(t)
	if l := ended.Languages[0]; ended.NonFinite == "" || ended.Ended != 2 || ended.HeldOut != l.Loss || l.Loss < 4 || *l.ChrF != 0 || ended.Check() != nil {
		t.Errorf("%+v", ended)
	}
	training.Steps = 1 // after which what is held out has no finite loss
	if last := testkit.Must(Train(t.Context(), training))(t); last.NonFinite == "" || last.Ended != 1 || last.HeldOut != ended.HeldOut {
		t.Errorf("%+v", last)
	}
	log := records.New(x.Key("smoke"))
	for _, a := range f.Arms {
		for _, of := range f.grid(size, a, size.Pilots.Rates) {
			add(t, log, of.Sample(101), 101, pilot{Trial: trial(1, of.Training(1).LR, 1)})
		}
		for _, seed := range size.Seeds {
			add(t, log, f.arm(size, a, 0.01).Sample(seed), seed, ended)
		}
	}
	r := testkit.Must(x.Report(log, nil))(t)
	testkit.Has(t, strings.Join(r.Tables[0].Notes, "\n"), "A training of other ended at step 2 with a value that is not finite; it counts as guessing at random.")
}
