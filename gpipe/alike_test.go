package gpipe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// A replica whose weights differ is named, with its stage and tensor, before they are
// first used: by a step after Open and after Load, and by an evaluation, a prediction or
// a Save after steps.
func TestReplicasAreCompared(t *testing.T) {
	at := place.Place{Replica: 2, Stage: 1}
	step := func(t *testing.T, tr *Trainer) {
		t.Helper()
		stepped(t, tr, small.data(0))
	}
	// bend changes one value.
	bend := func(tr *Trainer) (path string) {
		w := &tr.devices[tr.net.DeviceOf(at)].weights[1]
		w.w[len(w.w)-1]++
		return tr.net.Params[w.param].Path
	}
	file := filepath.Join(t.TempDir(), "weights")
	for name, run := range map[string]func(t *testing.T, tr *Trainer) (path string, err error){
		"a step after Open": func(t *testing.T, tr *Trainer) (string, error) {
			path := bend(tr)
			_, err := tr.Step(t.Context(), small.data(0))
			return path, err
		},
		"a step after Load": func(t *testing.T, tr *Trainer) (string, error) {
			step(t, tr)
			saved := filepath.Join(t.TempDir(), "saved")
			noError(t, errors.Join(tr.Save(saved, nil), tr.Load(saved)))
			path := bend(tr)
			_, err := tr.Step(t.Context(), small.data(0))
			return path, err
		},
		"an evaluation": func(t *testing.T, tr *Trainer) (string, error) {
			step(t, tr)
			path := bend(tr)
			step(t, tr) // which compares nothing, and leaves the difference
			_, err := tr.Evaluate(t.Context(), small.data(0))
			return path, err
		},
		"a prediction": func(t *testing.T, tr *Trainer) (string, error) {
			step(t, tr)
			path := bend(tr)
			_, err := tr.Predict(t.Context(), small.data(0).Inputs...)
			return path, err
		},
		"Save": func(t *testing.T, tr *Trainer) (string, error) {
			step(t, tr)
			path := bend(tr)
			return path, tr.Save(file, nil)
		},
		"an evaluation of averages": func(t *testing.T, tr *Trainer) (string, error) {
			step(t, tr)
			d := tr.devices[tr.net.DeviceOf(at)]
			d.weights[0].average()[0]++
			must(tr.Evaluate(t.Context(), small.data(0)))(t)
			return tr.net.Params[d.weights[0].param].Path, tr.Averaged(func() error {
				_, err := tr.Evaluate(t.Context(), small.data(0))
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := small.pipeline(t)
			p.Replicas, p.Partitions, p.EMA = 3, 2, nn.EMA{Decay: 0.9}
			tr := openedForAll(t, p, InputOf(small.data(0)))
			path, err := run(t, tr)
			var differs *ReplicaError
			if !errors.As(err, &differs) || differs.At != at || differs.What != path {
				t.Fatalf("%v, want %s on %v", err, path, at)
			}
			if _, again := tr.Step(t.Context(), small.data(0)); !errors.As(again, &differs) {
				t.Errorf("afterwards: %v", again)
			}
		})
	}
	testkit.Refused(os.Stat(file))(t)
}

// Moving averages are compared as well, and every replica has those in the file.
func TestReplicasHaveTheSameStatistics(t *testing.T) {
	p := smallResNet.pipeline(t, false)
	p.Replicas, p.Partitions = 2, 2
	tr := openedForAll(t, p, InputOf(smallResNet.data(0)))
	stepped(t, tr, smallResNet.data(0))
	file := filepath.Join(t.TempDir(), "weights")
	noError(t, errors.Join(tr.Save(file, nil), tr.Load(file)))
	fresh := openedForAll(t, p, InputOf(smallResNet.data(0)))
	noError(t, fresh.Load(file))
	if _, err := fresh.Evaluate(t.Context(), smallResNet.data(0)); err != nil {
		t.Error(err)
	}
	d := tr.devices[tr.net.DeviceOf(place.Place{Replica: 1, Stage: 1})]
	d.moving[1].variance[0]++
	var differs *ReplicaError
	if _, err := tr.Evaluate(t.Context(), smallResNet.data(0)); !errors.As(err, &differs) || differs.What != tr.net.Paths[d.moving[1].Variance] {
		t.Errorf("%v", err)
	}
}

// Replicas in several processes with seeds of their own are told apart in each of them.
func TestProcessesHaveTheSameSeed(t *testing.T) {
	ps := &processes{ends: transport.Ends(2, func(at place.Place) int { return at.Replica })}
	for rank, end := range ps.ends {
		p := small.pipeline(t)
		p.Replicas, p.Transport, p.Seed = 2, end, uint64(rank)
		ps.trainers = append(ps.trainers, openedForAll(t, p, InputOf(small.data(0))))
	}
	const want = "replica 1, stage 0: its seed is not that of replica 0: want the same in all replicas"
	if got := said(t, ps, "error", func(tr *Trainer) string {
		_, err := tr.Step(t.Context(), small.data(0))
		if err == nil {
			return ""
		}
		return err.Error()
	}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
