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
	b := small.data(0)
	step := func(tr *Trainer) error { _, err := tr.Step(t.Context(), b); return err }
	evaluate := func(tr *Trainer) error { _, err := tr.Evaluate(t.Context(), b); return err }
	predict := func(tr *Trainer) error { _, err := tr.Predict(t.Context(), b.Inputs...); return err }
	averaged := func(tr *Trainer) error { return tr.Averaged(func() error { return evaluate(tr) }) }
	file := filepath.Join(t.TempDir(), "weights")
	save := func(tr *Trainer) error { return tr.Save(file, nil) }
	reload := func(tr *Trainer) error { return errors.Join(save(tr), tr.Load(file), os.Remove(file)) }
	weights := func(w *weight) []float32 { return w.w }
	for name, c := range map[string]struct {
		before []func(*Trainer) error
		bent   func(w *weight) []float32 // whose last value is changed
		after  []func(*Trainer) error    // the last of which compares
	}{
		"a step after Open":         {nil, weights, []func(*Trainer) error{step}},
		"a step after Load":         {[]func(*Trainer) error{step, reload}, weights, []func(*Trainer) error{step}},
		"an evaluation":             {[]func(*Trainer) error{step}, weights, []func(*Trainer) error{step, evaluate}}, // a later step leaves the difference
		"a prediction":              {[]func(*Trainer) error{step}, weights, []func(*Trainer) error{predict}},
		"Save":                      {[]func(*Trainer) error{step}, weights, []func(*Trainer) error{save}},
		"an evaluation of averages": {[]func(*Trainer) error{step}, (*weight).average, []func(*Trainer) error{evaluate, averaged}},
	} {
		t.Run(name, func(t *testing.T) {
			p := small.pipeline(t)
			p.Replicas, p.Partitions, p.EMA = 3, 2, nn.EMA{Decay: 0.9}
			tr := openedForAll(t, p, InputOf(b))
			for _, do := range c.before {
				noError(t, do(tr))
			}
			w := &tr.devices[tr.net.DeviceOf(at)].weights[1]
			values := c.bent(w)
			values[len(values)-1]++
			last := len(c.after) - 1
			for _, do := range c.after[:last] {
				noError(t, do(tr))
			}
			err := c.after[last](tr)
			var differs *ReplicaError
			if path := tr.net.Params[w.param].Path; !errors.As(err, &differs) || differs.At != at || differs.What != path {
				t.Fatalf("%v, want %s on %v", err, path, at)
			}
			if again := step(tr); !errors.As(again, &differs) {
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
