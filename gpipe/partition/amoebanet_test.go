package partition

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// amoebaNet is the multiply-adds of an image through each layer of AmoebaNet-D
// (18, 256) at 224x224 with 1000 classes: stem, two reduction cells, then three
// times six normal cells with a reduction cell between, and the classifier.
// 15.17 G in all.
var amoebaNet = []float64{
	21676032, 420675584, 574816256,
	526647296, 655097856, 706478080, 706478080, 706478080, 706478080, 1037238272,
	552337408, 655097856, 706478080, 706478080, 706478080, 706478080, 1037238272,
	552337408, 655097856, 706478080, 706478080, 706478080, 706478080, 4096000,
}

// The model of the paper's Table 2. Min-max's and min-variance's eight stages tie
// in efficiency, in different sizes.
func TestAmoebaNet(t *testing.T) {
	for _, test := range []struct {
		stages      int
		partitioner Partitioner
		sizes       []int
		efficiency  float64
	}{
		{2, MinMax, []int{12, 12}, 0.960},
		{4, MinMax, []int{7, 5, 5, 7}, 0.939},
		{4, MinVariance, []int{7, 5, 5, 7}, 0.939},
		{4, Lingvo, []int{7, 5, 5, 7}, 0.939},
		{4, Block, []int{7, 5, 6, 6}, 0.859},
		{8, MinMax, []int{5, 3, 2, 2, 3, 2, 3, 4}, 0.862},
		{8, MinVariance, []int{5, 3, 2, 3, 2, 2, 3, 4}, 0.862},
		{8, Lingvo, []int{4, 3, 2, 3, 3, 2, 3, 4}, 0.845},
		{8, Block, []int{4, 2, 3, 3, 3, 3, 3, 3}, 0.826},
	} {
		got := testkit.Must(Split(test.partitioner, amoebaNet, test.stages))(t)
		if e := Efficiency(amoebaNet, got.Sizes); !slices.Equal(got.Sizes, test.sizes) || math.Abs(e-test.efficiency) > 5e-4 {
			t.Errorf("%v in %d stages: %v, efficiency %.3f, want %v, %.3f", test.partitioner, test.stages, got, e, test.sizes, test.efficiency)
		}
	}
}

func ExampleSplit() {
	cost := []float64{1, 2, 3, 4, 5, 6}
	for _, p := range []Partitioner{MinMax, MinVariance, Lingvo, Block} {
		r, err := Split(p, cost, 3)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p, r.Sizes, StageCosts(cost, r.Sizes), Efficiency(cost, r.Sizes))
	}
	// Output:
	// min-max [3 2 1] [6 9 6] 0.7777777777777778
	// min-variance [3 2 1] [6 9 6] 0.7777777777777778
	// lingvo [3 1 2] [6 4 11] 0.6363636363636364
	// block [3 2 1] [6 9 6] 0.7777777777777778
}
