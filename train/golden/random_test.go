package golden

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/train"
)

// Random draws n trainings of two steps from a seed, smaller than Trainings: of every kind of
// network, with random sizes, layouts, schedules and optimisers. A seed draws the same ones
// everywhere, and drawing more of them changes none of the first.
func Random(seed uint64, n int) []Training {
	trainings := make([]Training, n)
	for i := range trainings {
		trainings[i] = Training{fmt.Sprintf("random-%d", i), func(ctx context.Context) (Outcome, error) {
			t, l, err := drawOpen(ctx, philox.NewStream(philox.KeyOf(seed, "golden/random"), uint64(i)))
			if err != nil {
				return Outcome{}, err
			}
			o, err := run(ctx, l, false)
			if err != nil {
				err = fmt.Errorf("%+v of %+v: %w", t.Setup, t.Model, err)
			}
			return o, err
		}}
	}
	return trainings
}

// drawOpen opens a network with the first settings that are not refused: many are, such as a schedule
// with fewer micro-batches than it wants.
func drawOpen(ctx context.Context, s *philox.Stream) (t train.Training, l *train.Loop, err error) {
	for range 10 {
		network := drawNetwork(s)
		for range 30 {
			t = drawSettings(s, network)
			if l, err = t.Open(ctx); err == nil {
				return t, l, nil
			}
		}
	}
	return t, nil, fmt.Errorf("drawn 300 times, and always refused: %w", err)
}

// drawSettings draws how a network is trained and run, which may be refused.
func drawSettings(s *philox.Stream, t train.Training) train.Training {
	t.Batch, t.Steps, t.Seed = 4+s.Intn(9), 2, s.Uint64()
	rule := pick(s, optimizer{"sgd", 0.05}, optimizer{"momentum", 0.02}, optimizer{"nesterov", 0.02},
		optimizer{"adam", 0.003}, optimizer{"adamw", 0.003}, optimizer{"rmsprop", 0.003},
		optimizer{"lars", 1}, optimizer{"lars-unscaled", 1})
	t.Optimizer, t.LR = rule.name, rule.rate
	t.LRSchedule = pick(s, "constant", "inverse-sqrt:2", "warmup:1,cosine:2:0.1",
		"exponential:0.9:2:smooth", "warmup:1,polynomial:1.5:2")
	t.ClipNorm, t.L2, t.LabelSmoothing = pick(s, 0, 0.5), pick(s, 0, 1e-4), pick(s, 0, 0.1)

	t.Setup = train.Setup{
		Partitions: 1 + s.Intn(4), MicroBatches: 1 + s.Intn(4), Replicas: 1 + s.Intn(2),
		DType:  pick(s, graph.F32, graph.BF16),
		Device: pick(s, gpipe.Host, gpipe.Emulated), Threads: 1 + s.Intn(2),
		Schedule:   schedule.Schedule(s.Intn(1 + int(schedule.DualPipeV))),
		Checkpoint: pick(s, schedule.Always, schedule.ExceptLast, schedule.Never), LateRecompute: s.Intn(2) == 0,
	}
	if t.Setup.Replicas > 1 {
		t.Setup.Groups = pick(s, 0, 4)
		t.Setup.ShardUpdate = s.Intn(2) == 0
		if t.Model.Tied == "softmax" {
			t.Setup.TiedGradients = pick(s, gpipe.ReduceTied, gpipe.GatherTied)
		}
	}
	if t.Model.Images() {
		t.Setup.BNScope = pick(s, gpipe.ReplicaScope, gpipe.AllScope)
		if s.Intn(2) == 0 { // which does not go with the others
			t.Setup.Spatial, t.Setup.DType, t.Setup.BNScope = 2, graph.F32, gpipe.ReplicaScope
		}
	}
	return t
}

// optimizer is one with a rate that suits it.
type optimizer struct {
	name string
	rate float64
}

// drawNetwork is a training with a network and its data. Widths are often no multiple of a vector.
func drawNetwork(s *philox.Stream) (t train.Training) {
	heads := 1 + s.Intn(4)
	dim := 2 * heads * (1 + s.Intn(8))
	dropout := pick(s, 0, 0.1)
	switch s.Intn(8) {
	case 0, 1, 2:
		t = languageModel()
		t.Model = train.Model{Name: train.LanguageModel, Layers: 1 + s.Intn(3), Dim: dim, FF: 1 + s.Intn(80), Heads: heads,
			Vocab: 4 * (8 + s.Intn(20)), Seq: 4 + s.Intn(20), Dropout: dropout,
			Tied: pick[train.Tying](s, "none", "softmax"), Fine: s.Intn(2) == 0}
	case 3:
		t = translation()
		t.Model = train.Model{Name: train.Translator, Layers: 1 + s.Intn(2), Dim: dim, FF: 1 + s.Intn(80), Heads: heads,
			Seq: 24, Dropout: dropout, Tied: pick[train.Tying](s, "none", "softmax", "all"), Fine: s.Intn(2) == 0}
	case 4:
		t = translation()
		t.Model = train.Model{Name: train.GNMT, Layers: 2 + s.Intn(2), Dim: 4 + s.Intn(24), Seq: 24, Dropout: dropout,
			Tied: pick[train.Tying](s, "none", "all")}
	case 5:
		t = drawnImages()
		t.Model = train.Model{Name: "resnet50", Width: 1 + s.Intn(6), Image: 20 + s.Intn(17),
			Fine: s.Intn(2) == 0, ZeroInit: s.Intn(2) == 0}
	case 6:
		t = drawnImages()
		t.Model = train.Model{Name: train.AmoebaNet, Layers: 3, Filters: 8, Image: 33 + s.Intn(8),
			Dropout: dropout, DropPath: pick(s, 0, 0.3), Aux: pick(s, 0, 0.4)}
		if s.Intn(2) == 0 {
			t.Model.Name, t.Model.Filters = train.AmoebaNetB, 16
		}
	default:
		t = drawnImages()
		t.Model = train.Model{Name: train.Detector, Width: 2 * (1 + s.Intn(2)), Image: 32 + s.Intn(17), Fine: s.Intn(2) == 0}
	}
	if t.Model.Images() {
		t.Model.Classes, t.Model.BNMomentum = 2+s.Intn(7), pick(s, 0, 0.5)
	}
	return t
}

func pick[T any](s *philox.Stream, of ...T) T { return of[s.Intn(len(of))] }
