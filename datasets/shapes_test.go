package datasets

import (
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

func padded(counts, cut []int) int {
	sum := 0
	for l, c := range counts {
		if c > 0 {
			k, _ := slices.BinarySearch(cut, l)
			sum += c * cut[k]
		}
	}
	return sum
}

func TestBoundsByHand(t *testing.T) {
	for _, c := range []struct {
		counts []int
		n      int
		want   []int
	}{
		{[]int{0, 1, 1, 1}, 5, []int{1, 2, 3}},
		{[]int{0, 0, 9}, 1, []int{2}},
		// 10 of 2, 1 of 3, 1 of 9: {2,3} pads 10, {2,9} pads 6, {3,9} pads 10.
		{[]int{0, 0, 10, 1, 0, 0, 0, 0, 0, 1}, 2, []int{2, 9}},
		// Now 3 at the end: {2,9} pads 6 still, {3,9} 1.
		{[]int{0, 0, 1, 1, 0, 0, 0, 0, 0, 3}, 2, []int{3, 9}},
		// {1,3} and {2,3} both pad 1: take the one whose last group begins
		// first.
		{[]int{0, 1, 1, 1}, 2, []int{1, 3}},
		{nil, 3, nil},
	} {
		testkit.EqualAll(t, bounds(c.counts, c.n), c.want, "%v in %d", c.counts, c.n)
	}
}

func TestBoundsAreTheBest(t *testing.T) {
	random := philox.NewStream(philox.KeyOf(1, "bounds"), 0)
	for range 200 {
		counts := make([]int, 2+random.Intn(9))
		longest := 0
		for l := 1; l < len(counts); l++ {
			if counts[l] = max(0, random.Intn(8)-2); counts[l] > 0 {
				longest = l
			}
		}
		if longest == 0 {
			continue
		}
		for n := 1; n <= 4; n++ {
			best := math.MaxInt
			for set := range 1 << longest { // every choice of bounds below the longest
				cut := []int{}
				for l := 1; l < longest; l++ {
					if set>>l&1 == 1 {
						cut = append(cut, l)
					}
				}
				if len(cut) < n {
					best = min(best, padded(counts, append(cut, longest)))
				}
			}
			got := bounds(counts, n)
			if len(got) > n || !slices.IsSorted(got) || padded(counts, got) != best {
				t.Fatalf("%v in %d: %v pads to %d, want %d", counts, n, got, padded(counts, got), best)
			}
		}
	}
}

func TestShapesAreNestedAndFit(t *testing.T) {
	random := philox.NewStream(philox.KeyOf(1, "shapes"), 0)
	for range 100 {
		sizes := make([]Shape, 1+random.Intn(60))
		largest := Shape{}
		for i := range sizes {
			sizes[i] = Shape{1 + random.Intn(20), 1 + random.Intn(20)}
			largest = largest.union(sizes[i])
		}
		n := 1 + random.Intn(5)
		shapes := shapesOf(sizes, n)
		if len(shapes) > n || shapes[len(shapes)-1] != largest {
			t.Fatalf("%d shapes %v, largest %v", n, shapes, largest)
		}
		for k := 1; k < len(shapes); k++ {
			if !shapes[k].fits(shapes[k-1].Source, shapes[k-1].Target) || shapes[k] == shapes[k-1] {
				t.Fatalf("shapes %v are not nested", shapes)
			}
		}
		for _, s := range sizes {
			if k := shapeFor(shapes, s.Source, s.Target); k == len(shapes) {
				t.Fatalf("%v does not fit %v", s, shapes)
			}
		}
		testkit.Equal(t, shapeFor(shapes, largest.Source+1, 1), len(shapes), "too long a source fits")
	}
}

func TestGroup(t *testing.T) {
	// Items are their shapes. Three of shape 0, four of 1, one of 2, in groups
	// of two: the third 0 goes to the 1s, and the fifth item there to the 2.
	items := []int{1, 0, 2, 0, 1, 1, 0, 1}
	var arranged [][]int
	got := group(items, 3, func(i int) int { return i }, 2, func(k int, members []int) {
		arranged = append(arranged, slices.Clone(members))
	})
	testkit.EqualDeep(t, got, [][]int{{0, 0}, {0, 1}, {1, 1}, {1, 2}}, "groups")
	testkit.EqualDeep(t, arranged, [][]int{{0, 0, 0}, {0, 1, 1, 1, 1}, {1, 2}}, "arranged")
	// The remaining items form a short group.
	got = group(items, 3, func(i int) int { return i }, 3, keepOrder)
	testkit.EqualDeep(t, got, [][]int{{0, 0, 0}, {1, 1, 1}, {1, 2}}, "groups")
	testkit.Equal(t, len(group([]int{}, 3, func(i int) int { return i }, 3, keepOrder)), 0, "groups of nothing")
}
