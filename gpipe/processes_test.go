package gpipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// processes are trainers that run a pipeline together, each some of its stages, as
// separate processes would: they share nothing but the transport.
type processes struct {
	trainers []*Trainer
	ends     []*transport.Channels
}

// apart opens a pipeline whose stage k runs in process owners[k]. pipeline is called
// once for each process.
func apart(t testing.TB, owners []int, in Input, pipeline func() Pipeline) *processes {
	t.Helper()
	ps := &processes{ends: transport.Ends(slices.Max(owners)+1, func(p place.Place) int { return owners[p.Stage] })}
	for _, end := range ps.ends {
		p := pipeline()
		p.Partitions, p.Transport = len(owners), end
		ps.trainers = append(ps.trainers, openedForAll(t, p, in))
	}
	return ps
}

// all runs f in every process at once.
func (ps *processes) all(f func(rank int, tr *Trainer)) {
	var wait sync.WaitGroup
	for rank, tr := range ps.trainers {
		wait.Go(func() { f(rank, tr) })
	}
	wait.Wait()
}

// said is f's result, which must be the same in every process.
func said[T comparable](t *testing.T, ps *processes, what string, f func(tr *Trainer) T) T {
	t.Helper()
	all := make([]T, len(ps.trainers))
	ps.all(func(rank int, tr *Trainer) { all[rank] = f(tr) })
	for rank, got := range all {
		testkit.Equal(t, got, all[0], "%s: rank %d", what, rank)
	}
	return all[0]
}

// history is all that a training reports, except times.
func history(t *testing.T, tr *Trainer, data func(i int) nn.Batch, dir string) string {
	var b bytes.Buffer
	say := func(what string, value any, err error) {
		testkit.Equal(t, err, nil)
		fmt.Fprintln(&b, what, value)
	}
	say("initial", tr.Hash(), nil)
	for i := range 3 {
		r, err := tr.Step(t.Context(), data(i))
		if err != nil {
			t.Error(err)
			return ""
		}
		kinds := map[timeline.Kind]int{}
		for _, e := range r.Timeline.Events {
			kinds[e.Kind]++
		}
		say("step", []any{r.Loss, r.Correct, r.GradNorm, r.Ranks, len(r.Times.Stages), kinds}, nil)
	}
	for k, plan := range tr.Plans() {
		used, peak := tr.HighWater(k)
		say("memory", []any{plan.Bytes == used, plan.Peak == peak}, nil)
	}
	say("averaged", "", tr.Averaged(func() error { say("average", tr.Hash(), nil); return nil }))
	r, err := tr.Evaluate(t.Context(), data(3))
	if err != nil {
		t.Error(err)
		return ""
	}
	say("evaluation", r.Loss, nil)
	predicted, err := tr.Predict(t.Context(), data(3).Inputs...)
	say("prediction", predicted, err)
	file := filepath.Join(dir, fmt.Sprint(tr.transport.Rank()))
	say("saved", "", tr.Save(file, nil))
	text, err := os.ReadFile(file)
	say("file", string(text), err)
	state, err := tr.State(nil)
	say("copied", "", err)
	for range 2 {
		say("state", sumOfState(state), tr.Restore(state))
		r, err := tr.Step(t.Context(), data(4))
		if err != nil {
			t.Error(err)
			return ""
		}
		say("trained on", []any{tr.Hash(), r.Loss}, nil)
	}
	say("loaded", tr.Hash(), tr.Load(file))
	say("loaded", tr.Hash(), nil)
	return b.String()
}

// A training in several processes reports the same, to the bit, as in one: stages
// exchange nothing but through the transport.
func TestProcesses(t *testing.T) {
	lm := func() Pipeline {
		p := small.pipeline(t)
		p.MicroBatches, p.Schedule, p.EMA = 4, schedule.OneFOneB, nn.EMA{Decay: 0.9}
		return p
	}
	scheduled := func(s schedule.Schedule) func() Pipeline {
		return func() Pipeline {
			p := lm()
			p.Schedule = s
			return p
		}
	}
	convolutions := func() Pipeline {
		p := smallResNet.pipeline(t, false)
		p.MicroBatches, p.EMA = 2, nn.EMA{Decay: 0.9}
		return p
	}
	for _, c := range []struct {
		name     string
		owners   []int
		pipeline func() Pipeline
		data     func(i int) nn.Batch
	}{
		{"one a stage", []int{0, 1, 2}, lm, small.data},
		{"the first and the last together", []int{0, 1, 0}, lm, small.data},
		{"ranks the other way round", []int{1, 1, 0, 0}, lm, small.data},
		{"two chunks each", []int{0, 1}, scheduled(schedule.Interleaved), small.data},
		{"up and down", []int{0, 1}, scheduled(schedule.ZBV), small.data},
		{"F beside B", []int{0, 1}, scheduled(schedule.DualPipeV), small.data},
		{"batch norm", []int{0, 0, 1}, convolutions, func(i int) nn.Batch { return smallResNet.data(i % 3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "batch norm" {
				testkit.CI(t)
			}
			p := c.pipeline()
			p.Partitions = len(c.owners)
			tr := openedForAll(t, p, InputOf(c.data(0)))
			want := history(t, tr, c.data, t.TempDir())
			ps := apart(t, c.owners, InputOf(c.data(0)), c.pipeline)
			dir := t.TempDir()
			testkit.Equal(t, said(t, ps, "history", func(tr *Trainer) string { return history(t, tr, c.data, dir) }), want, "in processes")
		})
	}
}

// If a step fails, every process returns the error that a single process returns.
func TestProcessesFail(t *testing.T) {
	poison := func(p *Pipeline, at int) {
		p.Layers[at] = poisoned{p.Layers[at], &nn.Param{Name: "poison", Shape: graph.Shape{small.model.Dim}, Init: nn.Constant(float32(math.NaN()))}}
	}
	token := small.data(0)
	token.Inputs[0].I32[3] = 1000
	for _, c := range []struct {
		name     string
		change   func(p *Pipeline)
		batch    nn.Batch
		evaluate bool
	}{
		{"a loss that is no number", func(p *Pipeline) { poison(p, 4) }, small.data(0), false},
		{"an evaluation's", func(p *Pipeline) { poison(p, 2) }, small.data(0), true},
		{"a panic", func(p *Pipeline) {
			p.testing.inTask = func(at place.Place, kind timeline.Kind, micro int) {
				if at.Stage == 1 && kind == timeline.Backward && micro == 2 {
					panic("boom")
				}
			}
		}, small.data(0), false},
		{"a token outside", func(*Pipeline) {}, token, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer transporttest.NoneLeft(t)()
			pipeline := func() Pipeline {
				p := small.pipeline(t)
				p.Partitions, p.MicroBatches = 3, 4
				c.change(&p)
				return p
			}
			fails := func(tr *Trainer) string {
				var err error
				if c.evaluate {
					_, err = tr.Evaluate(t.Context(), c.batch)
				} else {
					_, err = tr.Step(t.Context(), c.batch)
				}
				return fmt.Sprint(err)
			}
			one := must(openForAll(pipeline(), InputOf(small.data(0))))(t)
			defer one.Close()
			ps := apart(t, []int{0, 1, 2}, InputOf(small.data(0)), pipeline)
			if got, want := said(t, ps, "error", fails), fails(one); got != want || want == "<nil>" {
				t.Errorf("processes say %q, one says %q", got, want)
			}
			for _, tr := range ps.trainers {
				tr.Close()
			}
		})
	}
}

// If a process dies, or its caller cancels, the others' step ends with an error.
func TestProcessesLose(t *testing.T) {
	for name, end := range map[string]func(ps *processes, cancel context.CancelFunc){
		"dies":     func(ps *processes, _ context.CancelFunc) { ps.ends[2].Close() },
		"gives up": func(_ *processes, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ps *processes
				ps = apart(t, []int{0, 1, 2}, InputOf(small.data(0)), func() Pipeline {
					p := small.pipeline(t)
					p.MicroBatches = 4
					p.testing.inTask = func(at place.Place, kind timeline.Kind, micro int) {
						if at.Stage == 2 && kind == timeline.Backward && micro == 1 {
							end(ps, cancel)
						}
					}
					return p
				})
				ps.all(func(rank int, tr *Trainer) {
					with := t.Context()
					if rank == 2 {
						with = ctx
					}
					_, err := tr.Step(with, small.data(0))
					var gone *transport.PeerError
					var aborted *transport.AbortError
					if name == "dies" && !errors.As(err, &gone) || name == "gives up" && rank < 2 && !errors.As(err, &aborted) || err == nil {
						t.Errorf("rank %d: %v", rank, err)
					}
					if got := tr.Hash(); name == "dies" && got != "" {
						t.Errorf("rank %d has hash %q of weights that are gone", rank, got)
					}
				})
				for _, tr := range ps.trainers {
					tr.Close()
				}
			})
		})
	}
}

// Tasks of emulated devices are timed alone, which only a single process can ensure.
func TestProcessesAreNotEmulated(t *testing.T) {
	p := small.pipeline(t)
	p.Partitions, p.Devices = 2, []Device{{Kind: Emulated}}
	p.Transport = transport.Ends(2, func(at place.Place) int { return at.Stage })[0]
	testkit.Refused(p.Open(InputOf(small.data(0))))(t)
	p.Devices, p.Transport = nil, transport.Ends(2, func(place.Place) int { return 0 })[1]
	testkit.Refused(p.Open(InputOf(small.data(0))))(t)
}
