package datasets

import (
	"math"
	"testing"
)

// A linear model does not solve the procedural task.
func TestLinearModelFailsAtFigures(t *testing.T) {
	s, err := NewSyntheticImages(Config{Images: ImageConfig{Size: 16}, SyntheticImages: SyntheticImagesConfig{Train: 2000}})
	if err != nil {
		t.Fatal(err)
	}
	y, err := s.Yardsticks()
	if err != nil {
		t.Fatal(err)
	}
	if len(y) != 2 || y[0].Loss != math.Log(10) || y[0].Accuracy != 0.1 || y[0].Floor || y[1].Floor {
		t.Errorf("yardsticks %+v", y)
	}
	if a := y[1].Accuracy; a < 0.05 || a > 0.35 || math.Abs(y[1].Loss-math.Log(10)) > 0.3 {
		t.Errorf("the linear model has accuracy %.3f and loss %.3f, want much less than half", a, y[1].Loss)
	}
}

// It does learn a linear task, also from large images, whose blocks it
// averages.
func TestLinearModelLearns(t *testing.T) {
	for _, size := range []int{8, 70} {
		s, err := NewSyntheticImages(Config{Images: ImageConfig{Size: 70}, SyntheticImages: SyntheticImagesConfig{Train: 300, HeldOut: 100, Classes: 3}})
		if err != nil {
			t.Fatal(err)
		}
		s.size = size
		s.pixels = brightRow{size}
		m := trainLinear(s)
		if want := map[int]int{8: 8, 70: 23}[size]; m.side != want {
			t.Errorf("size %d is reduced to %d, want %d", size, m.side, want)
		}
		if loss, accuracy := m.score(s); accuracy < 0.95 || loss > 0.5 {
			t.Errorf("size %d: accuracy %.3f, loss %.3f", size, accuracy, loss)
		}
		again := trainLinear(s)
		for c := range m.weights {
			for i := range m.weights[c] {
				if m.weights[c][i] != again.weights[c][i] {
					t.Fatal("trained twice, the model differs")
				}
			}
		}
	}
}

// brightRow has one class per third of the rows; that third is brighter.
type brightRow struct{ size int }

func (b brightRow) read(_ Split, i int, pixels []byte) int32 {
	class := i * 7 % 3
	for p := range pixels {
		pixels[p] = byte(100 + (p*31+i*17)%50)
		if row := p / (3 * b.size); row*3/b.size == class {
			pixels[p] += 20
		}
	}
	return int32(class)
}
