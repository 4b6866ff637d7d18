package datasets_test

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"gpipebench/datasets"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// TestContract: every source satisfies the contract of package datasets. Sources are opened
// several times, and all their held-out examples read: a few hundred are enough.
func TestContract(t *testing.T) {
	for name, open := range datasets.Sources(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("function", func(t *testing.T) { testFunction(t, open) })
			t.Run("passes", func(t *testing.T) { testPasses(t, open(1)) })
			t.Run("order", func(t *testing.T) { testOrder(t, open(1)) })
			t.Run("refusals", func(t *testing.T) { testRefusals(t, open(1)) })
			t.Run("yardsticks", func(t *testing.T) { testYardsticks(t, open(1)) })
		})
	}
}

// batch returns a batch after checking it: the types of its source, valid
// targets, and their count.
func batch(t *testing.T, s datasets.Source, split datasets.Split, index, examples int) nn.Batch {
	t.Helper()
	b, err := s.Batch(split, index, examples)
	if err == nil {
		err = b.Check()
	}
	testkit.NoError(t, err, "%v batch %d of %d", split, index, examples)
	count := 0
	for _, target := range b.Targets[0].I32 {
		if target < -1 || int(target) >= s.Vocab() {
			t.Fatalf("%v batch %d: target %d, want -1 to %d", split, index, target, s.Vocab()-1)
		}
		if target >= 0 {
			count++
		}
	}
	if b.Count != count || b.Examples() > examples {
		t.Fatalf("%v batch %d of %d: %d examples with a count of %d, want that of %d targets", split, index, examples, b.Examples(), b.Count, count)
	}
	return b
}

// testFunction: a batch is a pure function of (seed, split, index, examples),
// at any time and from any goroutine.
func testFunction(t *testing.T, open func(uint64) datasets.Source) {
	s := open(1)
	later := max(s.Batches(datasets.Train, 4), 8) + 1
	want := batch(t, s, datasets.Train, later, 4)
	held := batch(t, s, datasets.HeldOut, 0, 4)
	batch(t, s, datasets.Train, 2, 3)
	batch(t, s, datasets.HeldOut, 0, 1)
	same := func(s datasets.Source, when string) {
		for _, c := range []struct {
			split datasets.Split
			index int
			want  nn.Batch
		}{{datasets.Train, later, want}, {datasets.HeldOut, 0, held}} {
			got, err := s.Batch(c.split, c.index, 4)
			testkit.Equal(t, err, nil)
			testkit.EqualDeep(t, got, c.want, "the %v batch %s", c.split, when)
		}
	}
	same(s, "after others were taken")
	same(open(1), "from another source of the seed")
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			_, err := s.Batch(datasets.Train, g, 2+g)
			testkit.Equal(t, err, nil)
			same(s, "among goroutines")
		})
	}
	wait.Wait()
	for name, other := range map[string]nn.Batch{
		"index": batch(t, s, datasets.Train, later-1, 4),
		"pass":  batch(t, s, datasets.Train, later+max(s.Batches(datasets.Train, 4), 8), 4),
		"seed":  batch(t, open(2), datasets.Train, later, 4),
	} {
		if reflect.DeepEqual(other, want) {
			t.Errorf("another %s gives the same batch", name)
		}
	}
}

// testPasses: a pass has the number of batches that the source reports, all of
// them full except the last; after the last held-out batch comes an error. All
// have the shapes of the first, or are no larger than the largest of a
// Translation.
func testPasses(t *testing.T, s datasets.Source) {
	for _, split := range []datasets.Split{datasets.Train, datasets.HeldOut} {
		all := s.Batches(split, 1)
		if all == 0 && split == datasets.Train {
			continue // endless
		}
		for _, examples := range []int{3, 7, all, all + 1} {
			n := s.Batches(split, examples)
			if want := (all + examples - 1) / examples; n != want {
				t.Fatalf("%d %v batches of %d, want %d for %d examples", n, split, examples, want, all)
			}
			left, most := all, batch(t, s, split, 0, examples)
			shaped, ok := s.(*datasets.Translation)
			if ok {
				most = shaped.Largest(examples)
				testkit.NoError(t, most.Check())
				testkit.Equal(t, most.Examples(), examples, "examples of a largest batch")
			}
			largest := slices.Concat(most.Inputs, most.Targets)
			for i := range n {
				b := batch(t, s, split, i, examples)
				testkit.Equal(t, b.Examples(), min(examples, left), "%v batch %d of %d", split, i, n)
				left -= b.Examples()
				for k, tensor := range slices.Concat(b.Inputs, b.Targets) {
					fits := len(tensor.Shape) == len(largest[k].Shape) && (tensor.I32 == nil) == (largest[k].I32 == nil)
					for axis := 1; fits && axis < len(tensor.Shape); axis++ {
						size, most := tensor.Shape[axis], largest[k].Shape[axis]
						fits = size == most || ok && size < most
					}
					if !fits {
						t.Fatalf("%v batch %d: tensor %d of shape %v, and %v elsewhere", split, i, k, tensor.Shape, largest[k].Shape)
					}
				}
			}
		}
	}
	testkit.Refused(s.Batch(datasets.HeldOut, s.Batches(datasets.HeldOut, 3), 3))(t)
}

// testOrder: the order of examples does not depend on the size of a batch.
func testOrder(t *testing.T, s datasets.Source) {
	if _, ok := s.(*datasets.Translation); ok {
		return
	}
	for _, split := range []datasets.Split{datasets.Train, datasets.HeldOut} {
		n := 24
		if all := s.Batches(split, 1); all > 0 {
			n = min(n, all)
		}
		whole := batch(t, s, split, 0, n)
		for _, examples := range []int{1, 5} {
			for i := range n {
				b, at := batch(t, s, split, i/examples, examples), i%examples
				got, want := b.Slice(at, at+1), whole.Slice(i, i+1)
				testkit.EqualDeep(t, got.Inputs, want.Inputs, "%v example %d of batches of %d: inputs", split, i, examples)
				testkit.EqualDeep(t, got.Targets, want.Targets, "%v example %d of batches of %d: targets", split, i, examples)
			}
		}
	}
}

// testRefusals: a batch that no source can supply is an error of one line with
// its name; the last one of training that an index can name is none.
func testRefusals(t *testing.T, s datasets.Source) {
	for _, c := range []struct {
		split           datasets.Split
		index, examples int
	}{
		{2, 0, 1}, {datasets.Train, -1, 1}, {datasets.HeldOut, -1, 1}, {datasets.Train, 0, 0}, {datasets.HeldOut, 0, -1},
		{datasets.Train, 0, math.MaxInt}, {datasets.Train, math.MaxInt, 2}, {datasets.HeldOut, math.MaxInt / 2, 1},
	} {
		_, err := s.Batch(c.split, c.index, c.examples)
		testkit.FailsFirst(t, err, s.Name()+": ")
	}
	batch(t, s, datasets.Train, math.MaxInt/8-1, 8) // the last one of that size
}

// testYardsticks: each has a distinct name and a possible loss.
func testYardsticks(t *testing.T, s datasets.Source) {
	all, err := s.Yardsticks()
	if err != nil || len(all) == 0 {
		t.Fatalf("yardsticks %v, %v", all, err)
	}
	seen := map[string]bool{}
	for _, y := range all {
		if seen[y.Name] || y.Name == "" || !(y.Loss >= 0 && y.Loss < math.Inf(1)) || !(y.Accuracy >= 0 && y.Accuracy <= 1) {
			t.Errorf("yardstick %+v of %v", y, all)
		}
		seen[y.Name] = true
	}
}
