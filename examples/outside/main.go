// Command outside uses gpipebench as a library, from a module of its own: a
// regression, a convolutional network, an element-wise op of its own and a loss of
// its own. Each file is one of them.
//
// Run it with go run . in this folder; the replace line of go.mod says where
// gpipebench is.
package main

import (
	"context"
	"fmt"
	"log"

	"gpipebench/gpipe"
	"gpipebench/nn"
)

// network is what to train and how.
type network struct {
	name   string
	layers func() []nn.Layer
	loss   nn.Loss
	batch  nn.Batch
	rate   float64
}

var networks = []network{regression, lenet, swish, focal}

// pipeline cuts the network into k partitions and its mini-batches into m parts.
func (n network) pipeline(k, m int) gpipe.Pipeline {
	return gpipe.Pipeline{
		Layers: n.layers(), Loss: n.loss, Partitions: k, MicroBatches: m,
		Numerics: gpipe.Numerics{Optimizer: nn.Adam{}, LR: nn.ConstantLR(n.rate)},
	}
}

func main() {
	for _, n := range networks {
		first, last, hash, err := train(n.pipeline(2, 4), n.batch, 60)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-10s loss %.4f -> %.4f, weights %.12s\n", n.name, first, last, hash)
	}
}

// train makes steps on one batch and returns the first and the last loss and the
// SHA-256 of the weights.
func train(p gpipe.Pipeline, batch nn.Batch, steps int) (first, last float64, hash string, err error) {
	t, err := p.Open(gpipe.InputOf(batch))
	if err != nil {
		return 0, 0, "", err
	}
	defer t.Close()
	for i := range steps {
		r, err := t.Step(context.Background(), batch)
		if err != nil {
			return 0, 0, "", err
		}
		if last = r.Loss; i == 0 {
			first = r.Loss
		}
	}
	return first, last, t.Hash(), nil
}
