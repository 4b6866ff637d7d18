package baseline

import (
	"reflect"
	"testing"

	"gpipebench/internal/testkit"
)

// A linear model learns a linear task, also from large images, whose blocks it averages.
func TestLinear(t *testing.T) {
	for size, side := range map[int]int{8: 8, 70: 23} {
		read := brightRow(size)
		images := Images{Side: size, Channels: 3, Classes: 3, Train: 300, HeldOut: 100, ReadTrain: read, ReadHeldOut: func(i int, values []float32) int32 { return read(1000+i, values) }}
		m := TrainLinear(images)
		testkit.Equal(t, m.side, side, "size %d is reduced to", size)
		if loss, accuracy := m.Score(); accuracy < 0.95 || loss > 0.5 {
			t.Errorf("size %d: accuracy %.3f, loss %.3f", size, accuracy, loss)
		}
		if again := TrainLinear(images); !reflect.DeepEqual(m.weights, again.weights) {
			t.Error("trained twice, the model differs")
		}
	}
}

// brightRow returns images with one class per third of the rows; that third is brighter.
func brightRow(size int) func(i int, values []float32) int32 {
	return func(i int, values []float32) int32 {
		class := i * 7 % 3
		for p := range values {
			values[p] = float32((p*31+i*17)%50)/25 - 1
			if row := p / (3 * size); row*3/size == class {
				values[p] += 0.8
			}
		}
		return int32(class)
	}
}
