package snapshot_test

import (
	"context"
	"fmt"
	"os"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/snapshot"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// A training of ten steps that ends after six, and goes on in two partitions.
func Example() {
	dir, err := os.MkdirTemp("", "snapshots-*")
	check(err)
	defer os.RemoveAll(dir)
	source, err := datasets.NewSynthetic(datasets.Config{SeqLen: 8, Seed: 1})
	check(err)

	train := func(partitions, until int) *gpipe.Trainer {
		layers, err := transformer.LM(transformer.Config{Layers: 2, Dim: 16, FeedForward: 32, Heads: 2, Vocab: 64, SeqLen: 8})
		check(err)
		first, err := source.Batch(datasets.Train, 0, 4)
		check(err)
		trainer, err := gpipe.Pipeline{
			Layers: layers, Loss: nn.CrossEntropy{}, Partitions: partitions, Numerics: gpipe.Numerics{Seed: 1, Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01)},
		}.Open(gpipe.InputOf(first))
		check(err)

		newest, damaged, err := snapshot.Newest(dir)
		check(err)
		if newest != nil {
			state, err := newest.State()
			check(err)
			check(trainer.Restore(state))
			fmt.Println("goes on after step", newest.Step, "damaged:", len(damaged))
		}
		writer, err := snapshot.NewWriter(dir, 2, func(step int, err error) { check(err) })
		check(err)
		defer writer.Close()
		for trainer.Steps() < until {
			b, err := source.Batch(datasets.Train, trainer.Steps(), 4)
			check(err)
			_, err = trainer.Step(context.Background(), b)
			check(err)
			if trainer.Steps()%3 == 0 {
				check(writer.Save(trainer, snapshot.Contents{}))
			}
		}
		return trainer
	}
	train(1, 6).Close()
	resumed := train(2, 10)
	defer resumed.Close()
	check(os.RemoveAll(dir))
	whole := train(1, 10)
	defer whole.Close()
	fmt.Println("the same bits:", resumed.Hash() == whole.Hash())
	// Output:
	// goes on after step 6 damaged: 0
	// the same bits: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
